"""Names of common medicines: generic names, brands, and the stems that generic names are built with."""

from __future__ import annotations

from lm_eval_healthcare.studies.rewording.number_words import word_set

_GROUPS = """
paracetamol|acetaminophen|tylenol|panadol|apap
adrenaline|epinephrine|epipen
noradrenaline|norepinephrine|levophed
salbutamol|albuterol|ventolin|proventil
aspirin|acetylsalicylic acid|acido acetilsalicilico|asa
furosemide|frusemide|lasix
rifampicin|rifampin
lidocaine|lignocaine|xylocaine
pethidine|meperidine|demerol|petidina
glibenclamide|glyburide
ciclosporin|cyclosporine|cyclosporin
nitroglycerin|nitroglycerine|glyceryl trinitrate|gtn|ntg|nitroglicerina|trinitrate
isoprenaline|isoproterenol
levothyroxine|thyroxine|l-thyroxine|synthroid|tiroxina
dicycloverine|dicyclomine
hyoscine|scopolamine|escopolamina|hioscina
suxamethonium|succinylcholine|succinilcolina|suxametonio
phenobarbital|phenobarbitone
bendroflumethiazide|bendrofluazide
mesalazine|mesalamine
torasemide|torsemide
hydrochlorothiazide|hctz
hydroxychloroquine|hcq|plaquenil
methotrexate|mtx
phenytoin|dilantin|diphenylhydantoin
lithium|litio
valproate|valproic acid|acido valproico|depakote|depakene
folic acid|folate|acido folico
ibuprofen|advil|motrin|nurofen
naproxen|aleve|naprosyn
diclofenac|voltaren
warfarin|coumadin
acenocoumarol|sintrom
apixaban|eliquis
rivaroxaban|xarelto
dabigatran|pradaxa
enoxaparin|lovenox|clexane
clopidogrel|plavix
atorvastatin|lipitor
simvastatin|zocor
rosuvastatin|crestor
metformin|glucophage
sitagliptin|januvia
empagliflozin|jardiance
dapagliflozin|farxiga|forxiga
semaglutide|ozempic|wegovy
tirzepatide|mounjaro
omeprazole|prilosec|losec
esomeprazole|nexium
pantoprazole|protonix
sertraline|zoloft
fluoxetine|prozac
citalopram|celexa
escitalopram|lexapro
paroxetine|paxil|seroxat
venlafaxine|effexor
duloxetine|cymbalta
bupropion|wellbutrin|zyban
quetiapine|seroquel
olanzapine|zyprexa
risperidone|risperdal
aripiprazole|abilify
haloperidol|haldol
diazepam|valium
lorazepam|ativan
alprazolam|xanax
clonazepam|klonopin
midazolam|versed
zolpidem|ambien
gabapentin|neurontin
pregabalin|lyrica
levetiracetam|keppra
carbamazepine|tegretol
lamotrigine|lamictal
topiramate|topamax
oxycodone|oxycontin
tramadol|ultram
fentanyl|duragesic
naloxone|narcan
methylphenidate|ritalin
sildenafil|viagra
tadalafil|cialis
finasteride|propecia|proscar
tamsulosin|flomax
loratadine|claritin
cetirizine|zyrtec
fexofenadine|allegra
diphenhydramine|benadryl
montelukast|singulair
fluticasone|flonase|flovent
budesonide|pulmicort
tiotropium|spiriva
prednisone|deltasone
dexamethasone|decadron
adalimumab|humira
infliximab|remicade
etanercept|enbrel
rituximab|rituxan|mabthera
trastuzumab|herceptin
bevacizumab|avastin
pembrolizumab|keytruda
imatinib|gleevec|glivec
azithromycin|zithromax
ciprofloxacin|cipro
levofloxacin|levaquin
doxycycline|vibramycin
cephalexin|cefalexin|keflex
ceftriaxone|rocephin
metronidazole|flagyl
nitrofurantoin|macrobid|macrodantin
fluconazole|diflucan
aciclovir|acyclovir|zovirax
valaciclovir|valacyclovir|valtrex
oseltamivir|tamiflu
ondansetron|zofran
metoclopramide|reglan|primperan
loperamide|imodium
spironolactone|aldactone
lisinopril|zestril|prinivil
metoprolol|lopressor|toprol
amlodipine|norvasc
allopurinol|zyloprim
alteplase|tpa|rtpa
semisodium valproate|divalproex
statin|statins|estatina|estatinas
"""

_SINGLE = """
abacavir abatacept acarbose acebutolol acetazolamide acetylcysteine acetilcisteina adenosine albendazole alendronate
alfentanil alfuzosin aliskiren almotriptan amantadine amikacin amiloride aminophylline amiodarone amisulpride
amitriptyline amoxicillin amphotericin ampicillin anastrozole apomorphine aprepitant artemether artesunate asparaginase
atenolol atomoxetine atovaquone atracurium atropine azathioprine azelastine azelaic aztreonam baclofen beclometasone
benazepril benserazide benzylpenicillin betahistine betamethasone bezafibrate bicalutamide bisacodyl bisoprolol
bleomycin bosentan botulinum brimonidine bromocriptine bumetanide bupivacaine buprenorphine buspirone busulfan
cabergoline caffeine calcipotriol calcitonin calcitriol canagliflozin candesartan capecitabine captopril carbidopa
carbimazole carboplatin carvedilol caspofungin cefaclor cefadroxil cefazolin cefepime cefixime cefotaxime cefoxitin
ceftazidime cefuroxime celecoxib cetuximab chlorambucil chloramphenicol chlordiazepoxide chlorhexidine chloroquine
chlorphenamine chlorpheniramine chlorpromazine chlorthalidone chlortalidone cholecalciferol colecalciferol
cholestyramine
cilostazol cimetidine cinacalcet cisatracurium cisplatin cladribine clarithromycin clavulanate clemastine clindamycin
clobazam clobetasol clomifene clomiphene clomipramine clonidine clotrimazole clozapine cocaine codeine colchicine
colecalciferol colistin conivaptan cortisone cyclizine cyclopentolate cyclophosphamide cyproheptadine cyproterone
cytarabine dacarbazine dalteparin danazol dantrolene dapsone daptomycin darbepoetin daunorubicin deferasirox
deferoxamine desferrioxamine denosumab desipramine desloratadine desmopressin desogestrel dexmedetomidine
dextromethorphan
diclofenac digoxin dihydrocodeine dihydroergotamine diltiazem dimenhydrinate dipyridamole disopyramide disulfiram
dobutamine docetaxel docusate dolutegravir domperidone donepezil dopamine dornase doxazosin doxepin doxorubicin
dronedarone droperidol drospirenone dulaglutide edoxaban efavirenz eletriptan eltrombopag emtricitabine enalapril
entacapone entecavir eplerenone eprosartan ergometrine ergotamine ertapenem erythromycin erythropoietin esmolol
estradiol oestradiol eszopiclone ethambutol ethinylestradiol ethosuximide etomidate etoposide etoricoxib exemestane
exenatide ezetimibe famciclovir famotidine febuxostat felodipine fenofibrate filgrastim flecainide flucloxacillin
flucytosine fludarabine fludrocortisone flumazenil fluorouracil flurbiprofen flutamide fluvastatin fluvoxamine
fomepizole fondaparinux formoterol fosfomycin fosphenytoin galantamine ganciclovir gemcitabine gemfibrozil gentamicin
glatiramer gliclazide glimepiride glipizide glucagon glycopyrronium glycopyrrolate goserelin granisetron griseofulvin
guaifenesin guanfacine heparin hydralazine hydrochlorothiazide hydrocodone hydrocortisone hydromorphone
hydroxychloroquine hydroxycarbamide hydroxyurea hydroxyzine ibandronate idarubicin idarucizumab imipenem imipramine
imiquimod indapamide indinavir indometacin indomethacin insulin interferon ipilimumab ipratropium irbesartan irinotecan
isoniazid isotretinoin isosorbide itraconazole ivabradine ivermectin ketamine ketoconazole ketoprofen ketorolac
ketotifen labetalol lacosamide lactulose lamivudine lanreotide lansoprazole latanoprost leflunomide lenalidomide
letrozole leucovorin folinic leuprolide leuprorelin levocetirizine levodopa levonorgestrel linagliptin linezolid
liothyronine liraglutide lopinavir losartan lovastatin macrogol mannitol mebendazole mebeverine meclizine
medroxyprogesterone
mefenamic mefloquine megestrol melatonin meloxicam melphalan memantine mepivacaine mepolizumab mercaptopurine meropenem
mesna metamizole metamizol dipyrone methadone methimazole thiamazole tiamazol methocarbamol methotrexate methyldopa
methylprednisolone metolazone mexiletine mianserin miconazole mifepristone milrinone minocycline minoxidil mirabegron
mirtazapine misoprostol mitomycin mitoxantrone modafinil mometasone morphine moxifloxacin mupirocin mycophenolate
nadolol nalbuphine naltrexone natalizumab neomycin neostigmine nevirapine niacin nicardipine nicorandil nicotine
nifedipine nilotinib nimodipine nitroprusside nivolumab nizatidine norethisterone norethindrone norfloxacin
nortriptyline
nystatin octreotide ofloxacin olmesartan omalizumab orlistat oxaliplatin oxazepam oxcarbazepine oxybutynin oxytocin
paclitaxel paliperidone pamidronate pancuronium pantoprazole papaverine pemetrexed penicillamine penicillin pentamidine
pentoxifylline perindopril permethrin perphenazine phenazopyridine phenelzine phenoxymethylpenicillin phentolamine
phenylephrine phytomenadione phytonadione pilocarpine pioglitazone piperacillin piroxicam pizotifen posaconazole
pralidoxime pramipexole prasugrel pravastatin praziquantel prazosin prednisolone primaquine primidone probenecid
procainamide prochlorperazine procyclidine progesterone promethazine propafenone propofol propranolol propylthiouracil
protamine pseudoephedrine pyrazinamide pyridostigmine pyridoxine pyrimethamine quinapril quinidine quinine rabeprazole
raloxifene raltegravir ramipril ranitidine ranolazine rasagiline remdesivir remifentanil repaglinide ribavirin
rifaximin riluzole risedronate ritonavir rivastigmine rizatriptan rocuronium ropinirole ropivacaine rosiglitazone
sacubitril salmeterol saquinavir selegiline senna sevelamer sevoflurane isoflurane desflurane sirolimus sofosbuvir
solifenacin somatropin sorafenib sotalol streptokinase streptomycin sucralfate sufentanil sugammadex sulfadiazine
sulfamethoxazole sulfasalazine sulpiride sumatriptan sunitinib tacrolimus tamoxifen tazobactam teicoplanin telmisartan
temazepam temozolomide tenecteplase tenofovir terazosin terbinafine terbutaline teriparatide testosterone tetrabenazine
tetracycline thalidomide theophylline thiamine thiopental thiopentone ticagrelor ticlopidine timolol tinidazole
tinzaparin tirofiban tizanidine tobramycin tocilizumab tofacitinib tolbutamide tolterodine tolvaptan trandolapril
tranexamic tranylcypromine trazodone tretinoin triamcinolone triamterene trihexyphenidyl trimethoprim trospium
urokinase ursodeoxycholic ursodiol ustekinumab valganciclovir valsartan vancomycin vardenafil varenicline vasopressin
vecuronium vedolizumab verapamil vigabatrin vinblastine vincristine vinorelbine voriconazole vortioxetine xylometazoline
oxymetazoline zafirlukast zaleplon zidovudine ziprasidone zoledronate zoledronic zolmitriptan zonisamide zopiclone
"""

_TWO_IN_ONE = """
augmentin|co-amoxiclav|amoxiclav = amoxicillin clavulanate
bactrim|septrin|co-trimoxazole|cotrimoxazole|tmp-smx = trimethoprim sulfamethoxazole
sinemet|co-careldopa = levodopa carbidopa
tazocin|zosyn|pip-tazo = piperacillin tazobactam
entresto = sacubitril valsartan
vicodin|norco = hydrocodone paracetamol
percocet = oxycodone paracetamol
co-codamol = codeine paracetamol
symbicort = budesonide formoterol
seretide|advair = fluticasone salmeterol
lmwh|low-molecular-weight heparin|low molecular weight heparin|low-molecular weight heparin = heparin light-heparin
hbpm|heparina de bajo peso molecular = heparin light-heparin
paxlovid = nirmatrelvir ritonavir
"""

STEMS = word_set(
    "pril olol sartan dipine statin vastatin gliptin gliflozin glutide tinib ciclib parib lisib rafenib zomib degib "
    "avir ovir evir uvir triptan setron xaban gatran profen coxib azepam azolam barbital caine tidine thiazide semide "
    "lukast meterol moterol platin rubicin taxel trexate nercept tacept bercept kinra grastim poetin parin teplase "
    "stigmine curonium oxetine triptyline peridone prazole conazole nidazole bendazole quine mycin micin floxacin "
    "cycline cillin penem bactam dronate fibrate denafil rasone pramine giline phylline tropium prost mumab zumab "
    "ximab olumab limumab nimab umab ixizumab"
)
"""Endings of generic names, as the World Health Organization gives them out, that ordinary words do not have."""

NOT_DRUGS = word_set(
    "april somatostatin cystatin pentastatin prostatin cholesterol ergosterol fortune capril technique oblique unique "
    "physique antique mystique"
)
_SHORT = 5
"""Names up to this length keep their last letter: senna, mesna."""


def groups() -> tuple[dict[str, frozenset[str]], dict[str, frozenset[str]]]:
    """Return the medicines that each name stands for: names of one word, and names of several.

    Returns:
        Names as `canonical` gives them, to canonical names of medicines. A brand of two medicines stands for both.
    """
    words: dict[str, frozenset[str]] = {}
    phrases: dict[str, frozenset[str]] = {}
    for name in _SINGLE.split():
        words[canonical(name)] = frozenset({canonical(name)})
    listed = [(line.split("|"), [line.split("|")[0]]) for line in _GROUPS.strip().split("\n")]
    for line in _TWO_IN_ONE.strip().split("\n"):
        brands, _, parts = line.partition(" = ")
        listed.append((brands.split("|"), parts.split()))
    for names, stands_for in listed:
        target = frozenset(canonical(name) for name in stands_for)
        for name in names:
            separate = " " in name or "-" in name
            (phrases if separate else words)[name if separate else canonical(name)] = target
    return words, phrases


def canonical(word: str) -> str:
    """Return a name in a spelling that English, American and Spanish forms share.

    Args:
        word: In small letters without accents.
    """
    for old, new in (("ph", "f"), ("th", "t"), ("ch", "c"), ("oe", "e"), ("ae", "e"), ("y", "i"), ("ll", "l")):
        word = word.replace(old, new)
    for letter in "mnpst":
        word = word.replace(letter * 2, letter)
    if len(word) > _SHORT and word[-1] in "aeo":
        word = word[:-1]
    return word
