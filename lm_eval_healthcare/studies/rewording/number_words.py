"""Numbers written as words, in English and Spanish, and the units of measurement that follow numbers."""

from __future__ import annotations

import unicodedata


def word_set(listed: str) -> frozenset[str]:
    """Return the words of a list that is written as one text."""
    return frozenset(listed.split())


_ENGLISH = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_SPANISH = (
    "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciseis diecisiete "
    "dieciocho diecinueve veinte veintiuno veintidos veintitres veinticuatro veinticinco veintiseis veintisiete "
    "veintiocho veintinueve"
)
_ENGLISH_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_SPANISH_TENS = "treinta cuarenta cincuenta sesenta setenta ochenta noventa"

UNITS_EN = {word: value for value, word in enumerate(_ENGLISH.split())}
TENS_EN = {word: 20 + 10 * place for place, word in enumerate(_ENGLISH_TENS.split())}
UNITS_ES = {word: value for value, word in enumerate(_SPANISH.split())} | {"un": 1, "una": 1, "veintiun": 21}
TENS_ES = {word: 30 + 10 * place for place, word in enumerate(_SPANISH_TENS.split())}
HUNDREDS_ES = {
    "cien": 100, "ciento": 100, "doscientos": 200, "doscientas": 200, "trescientos": 300, "trescientas": 300,
    "cuatrocientos": 400, "cuatrocientas": 400, "quinientos": 500, "quinientas": 500, "seiscientos": 600,
    "seiscientas": 600, "setecientos": 700, "setecientas": 700, "ochocientos": 800, "ochocientas": 800,
    "novecientos": 900, "novecientas": 900,
}  # fmt: skip
MANY = {"thousand": 1e3, "million": 1e6, "billion": 1e9, "mil": 1e3, "millon": 1e6, "millones": 1e6}

LOOSE = {
    "single": 1, "once": 1, "both": 2, "couple": 2, "pair": 2, "double": 2, "doubled": 2, "doubles": 2, "twofold": 2,
    "triple": 3, "tripled": 3, "threefold": 3, "half": 0.5, "quarter": 0.25, "ambos": 2, "ambas": 2, "doble": 2,
    "mitad": 0.5, "medio": 0.5, "media": 0.5, "unico": 1, "unica": 1,
}  # fmt: skip
"""Words that say a number among other things: their loss is no fault, but they stand for the number."""

TIMES = {"twice": 2, "thrice": 3, "dozen": 12}

ORDINALS = {
    word: place
    for words in (
        "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth",
        "primer segundo tercer cuarto quinto sexto septimo octavo noveno decimo",
        "primera segunda tercera cuarta quinta sexta septima octava novena decima",
        "primero _ tercero",
    )
    for place, word in enumerate(words.split(), 1)
    if word != "_"
}

_ROMAN = "I II III IV V VI VII VIII IX X XI XII XIII"
ROMAN = {word: value for value, word in enumerate(_ROMAN.split(), 1)}
BEFORE_ROMAN = word_set(
    "type types stage grade class factor nerve nerves phase level category tipo estadio grado clase fase par"
)

_ALIASES = """
mass 1e9 kg kgs kilo kilos kilogram kilograms kilogramme kilogrammes kilogramo kilogramos
mass 1e6 g gm gms gr gram grams gramme grammes gramo gramos
mass 1e3 mg mgs milligram milligrams milligramme milligrammes miligramo miligramos
mass 1 mcg ug mcgs microgram micrograms microgramme microgrammes microgramo microgramos
mass 1e-3 ng nanogram nanograms nanogramo nanogramos
mass 1e-6 pg picogram picograms picogramo picogramos
mass 453592370 lb lbs pound pounds libra libras
mass 28349523.125 oz ounce ounces onza onzas
volume 1e6 l litre litres liter liters litro litros
volume 1e5 dl decilitre decilitres deciliter deciliters decilitro decilitros
volume 1e3 ml mls cc millilitre millilitres milliliter milliliters mililitro mililitros
volume 1 ul mcl microlitre microlitres microliter microliters microlitro microlitros
volume 1e-9 fl femtolitre femtolitres femtoliter femtoliters
length 1e9 km kilometre kilometres kilometer kilometers kilometro kilometros
length 1e6 m metre metres meter meters metro metros
length 1e4 cm cms centimetre centimetres centimeter centimeters centimetro centimetros
length 1e3 mm millimetre millimetres millimeter millimeters milimetro milimetros
length 1 um micron microns micrometre micrometres micrometer micrometers micrometro micrometros micras
length 1e-3 nm nanometre nanometres nanometer nanometers nanometro nanometros
length 25400 inch inches pulgada pulgadas
length 304800 ft foot feet pie pies
time 1e-3 ms msec millisecond milliseconds milisegundo milisegundos
time 1 s sec secs second seconds seg segundo segundos
time 60 min mins minute minutes minuto minutos
time 3600 h hr hrs hour hours hora horas
time 86400 d day days dia dias
time 604800 wk wks week weeks semana semanas
time 1209600 fortnight fortnights quincena
months 1 mo mos month months mes meses
months 12 yr yrs year years ano anos
amount 1e9 mol mols mole moles
amount 1e6 mmol mmols millimole millimoles milimol milimoles
amount 1e3 umol micromol micromole micromoles micromoles
amount 1 nmol nanomole nanomoles nanomol
amount 1e-3 pmol picomole picomoles
units 1 u iu ui unit units unidad unidades
units 1e-3 mu mui miu
equivalents 1 meq milliequivalent milliequivalents miliequivalente miliequivalentes
osmoles 1 mosm mosmol milliosmole milliosmoles
mmHg 1 mmhg
cmH2O 1 cmh2o
kPa 1 kpa kilopascal kilopascals
percent 1 % percent pct
celsius 1 celsius centigrade centigrados
fahrenheit 1 fahrenheit
degrees 1 degree degrees grado grados deg
energy 4184 kcal kcals kilocalorie kilocalories kilocaloria kilocalorias calories calorias
energy 1000 kj kilojoule kilojoules
dose 1 gy gray grays
dose 0.01 cgy
frequency 1 hz hertz
frequency 1000 khz
frequency 1e6 mhz
voltage 1 mv
current 1 ma
speed 1 bpm lpm rpm
count 1 beat beats breath breaths latidos respiraciones
"""

UNITS: dict[str, tuple[str, float]] = {
    alias: (kind, float(factor))
    for kind, factor, *aliases in (line.split() for line in _ALIASES.strip().split("\n"))
    for alias in aliases
}
"""Every way to write a unit, in small letters without accents: what kind of quantity it measures, and how many of the
kind's smallest unit it is. A month has no fixed number of days, so months and years are a kind of their own."""

EVERY = {
    "daily": ("time", 86400.0), "diario": ("time", 86400.0), "diaria": ("time", 86400.0),
    "diariamente": ("time", 86400.0), "nightly": ("time", 86400.0), "hourly": ("time", 3600.0),
    "weekly": ("time", 604800.0), "semanal": ("time", 604800.0), "semanalmente": ("time", 604800.0),
    "fortnightly": ("time", 1209600.0), "monthly": ("months", 1.0), "mensual": ("months", 1.0),
    "mensualmente": ("months", 1.0), "yearly": ("months", 12.0), "annually": ("months", 12.0),
    "annual": ("months", 12.0), "anual": ("months", 12.0), "anualmente": ("months", 12.0),
}  # fmt: skip
"""Words for "once in this time"."""


def plain(word: str) -> str:
    """Return a word in small letters without accents."""
    if word.isascii():
        return word.lower()
    parts = unicodedata.normalize("NFKD", word.lower())
    return "".join(c for c in parts if not unicodedata.combining(c))


def spelled(words: list[str], start: int) -> tuple[float, int] | None:
    """Read a number written as words.

    Args:
        words: Words in small letters without accents; other tokens between them as they are.
        start: Where it begins.

    Returns:
        The number and how many tokens it takes; None if no number begins here.
    """
    total, current, place, seen = 0.0, 0.0, start, False
    allowed = 1e12  # the next part must be smaller than the place of the last one: "twenty thirty" is two numbers
    while place < len(words):
        word = words[place]
        joined = seen and word in ("and", "y", "-") and place + 1 < len(words)
        if joined:
            word = words[place + 1]
        step = 2 if joined else 1
        small = UNITS_EN.get(word, UNITS_ES.get(word))
        tens = TENS_EN.get(word, TENS_ES.get(word))
        value = small if small is not None else tens if tens is not None else HUNDREDS_ES.get(word)
        if value is not None and value < allowed and not (joined and not _joins(words[place], current, value)):
            current += value
            allowed = 1 if small is not None else 10 if tens is not None else 100
            if small == 20:
                allowed = 1
        elif word == "hundred" and not joined and (0 < current < 10 or not seen):
            current, allowed = max(current, 1) * 100, 100
        elif word in MANY and not joined and (seen or word == "mil"):
            total, current, allowed = total + max(current, 1) * MANY[word], 0.0, 1000
        else:
            break
        seen = True
        place += step
    return (total + current, place - start) if seen else None


def _joins(word: str, current: float, value: float) -> bool:
    """Whether "and", "y" or a hyphen joins two parts of one number, not two numbers."""
    if word == "and":
        return current >= 100 and current % 100 == 0
    if word == "y":
        return 30 <= current % 100 <= 90 and value < 10
    return 20 <= current % 100 <= 90 and current % 10 == 0 and value < 10
