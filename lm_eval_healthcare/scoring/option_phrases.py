r"""The wordings in which models give, reject and explain an answer, in English and Spanish.

They are patterns over a text that `plain` has tidied: single blanks, no markup, no bullets. Every repetition is
bounded, so that searching a text takes time in proportion to its length.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

# Written forms, and what is read instead.
_REWRITTEN = tuple(
    (re.compile(pattern), new)
    for pattern, new in (
        (r"[\u200b-\u200f\u2060\ufeff\u00ad]", ""),  # invisible
        (r"[‘’´]", "'"),
        (r"\\(?:f?boxed|framebox)\s?\{", "\nAnswer: "),
        (r"<(?:final[_ ]?)?(?i:answer)>", "\nAnswer: "),
        (r"<\|[a-z_]{1,30}\|>", "\n"),  # `<|im_end|>`
        (r"</?[a-z][a-z_0-9]{0,19}>", "\n"),  # `<b>`, but not `<B>`
        (r"\\(?:long)?(?:[rR]ightarrow|to)\b", "→"),
        (r"\\(?:text(?:bf|it|rm)?|math(?:rm|bf|sf)|left|right|quad|bf|rm)\b|\\(?=[()\[\]])", ""),
        (r"[*`$#{}\"“”«»]", ""),
        (r"[_|]|[^\S\n]+", " "),
        (r" {2,}", " "),
        (r"(?m)^[^\w(\[<\n]+", ""),  # bullets
        (r" ?\n[ \n]*", "\n"),
    )
)

BEGIN = r"(?:^|(?<=[.,;:!?(])|(?<=[.,;:!?(]\ ))"  # of a clause
IS = (
    r"(?:is|es|are|ser[ií]a|would\ be|should\ be|must\ be|will\ be|has\ to\ be|(?:seems|appears|is\ (?:most\ )?likely)"
    r"\ to\ be)"
)
_NOUN = (
    r"(?:answer(?:\ (?:choice|option|letter|key))?|option|choice|letter|solution|conclusion|prediction"
    r"|relation(?:ship)?|topic|respuesta|opci[oó]n|alternativa|letra|soluci[oó]n|conclusi[oó]n|inciso|correcta)"
)
_LEAD = (
    r"(?:so|thus|therefore|hence|and|my|the|your|our|final|correct|right|best|most|likely|appropriate|single|selected"
    r"|predicted|overall|la|mi|por|lo|tanto|mejor)"
)
# `Answer: `, `So the final answer is - `, `Ans. `, a heading `Answer`.
ANCHORED = re.compile(
    rf"""{BEGIN}(?:{_LEAD},?\ ){{0,5}}
    (?: (?:{_NOUN}|ans|response|correct)\.?(?:\ (?:{IS}|la|final|correct[ao]?|\(letter\))){{0,3}}
        (?:\ (?:to|for|of|a|de)\ [^.:\n]{{1,80}})?
        (?:\ ?(?:[-–—=]{{1,2}}>|[:=→⇒➡]|[-–—]{{1,2}}(?=[\ \n(]))){{1,2}}[\ \n]?
      | ans\.?[\ \n]
      | (?<![^\n])(?:answer|respuesta|solution|soluci[oó]n|conclusion)\n )""",
    re.IGNORECASE | re.VERBOSE | re.MULTILINE,
)
# What stands before a choice that is stated in a sentence.
STATED = re.compile(
    rf"""(?: # `The answer to this question is `, `la correcta es `
        \b(?:{_NOUN}|(?:correct|right|best|my|final)\ (?:response|one)|correct\ (?:statement|diagnosis)
            |(?:likely|best|appropriate)\ (?:next\ )?(?:diagnosis|treatment|management|step|test|cause
              |explanation|therapy))
          (?:\ (?:correct[ao]?|final|here|m[aá]s\ \w{{1,12}}))?
          (?:\ (?:to|for|of|among|here|in|between|given|based|that|which|from|a|al|de|para)\ [^.\n]{{0,80}}?)?
          (?:'s|\ {IS})(?:\ that)?
      # `It's `, `I think it is `, `Es `
      | (?:{BEGIN}|\b(?<!n't\ )(?<!not\ )(?:so|and|but|think|believe|guess|say|that|thus|then|que|entonces|pues)\ )
          (?:(?:it|this|that)(?:'s|\ {IS})|es|ser[ií]a)
      # `I would go with `, `Choose `, `me quedo con `
      | (?:\b(?:I|we)(?:'d|'ll|'m|\ would|\ will|\ am)?(?:\ therefore|\ probably)?\ |\blet's\ |{BEGIN})
          (?:choose|pick|select|chose|mark|go(?:ing)?\ (?:with|for)|opt\ for|say|answer|vote\ for|guess|think|believe
            |settle\ on|lean\ towards?)(?!\ (?:it|this|that)\b)
      | \b(?:elijo|escojo|selecciono|marco|diría|(?:elegir|escoger|seleccionar|marcar)[ií]a|(?:opto|optaría|voto)\ por
            |me\ (?:quedo|quedaría)\ con|me\ (?:decanto|inclino)\ por)
      # `Thus, `
      | {BEGIN}(?:thus|therefore|hence|so|consequently|accordingly|(?:in\ )?conclusion|overall|finally
            |(?:por\ (?:lo\ )?)tanto|así\ que|entonces|en\ conclusión)
    ),?\ ?:?[\ \n]""",
    re.IGNORECASE | re.VERBOSE | re.MULTILINE,
)
FIRM = re.compile(r"\b(?:correct[ao]?|right|final|best)\b", re.IGNORECASE)
# What stands before `the answer is` where it is not stated: `if`, `I do not think that`, `a tempting`, `second best`,
# `some say`, and a condition at the beginning of the sentence.
UNSTATED = re.compile(
    r"""(?:\b(?:if|whether|unless|si|doubt)|(?:\bnot|n't)\ (?:think|believe|say|mean|agree|conclude|sure))\b
      [^.,;:!?\n]{0,40}$
    | \b(?:wrong|incorrect|tempting|possible|plausible|other|another|common|alternative|worst|trap|runner-up|no|nunca
        |jam[aá]s|tampoco|never|distractor|next\ best
        |(?:second|third|least|less|segunda?|tercera?)(?:[\ -](?:best|likely|probable|correct|appropriate|mejor))?)\ $
    | \b(?:you|one|some|many|others|people|students|una|algunos|muchos)
      (?:\ (?:people|students|experts|sources|might|may|could|would)){0,3}
      (?:\ (?:think|say|argue|believe|assume|guess|claim|suggest|dicen|creen))?(?:\ (?:that|que))?(?:\ (?:the|la))?\ $
    | (?:^|[.!?;:\n(]\ ?|,\ (?=but\ |pero\ ))(?:(?:but|and|however|so|now|pero|y),?\ )?(?:
        (?:if(?!\ (?:I|we|forced|asked)\b)|unless|when(?!\ \w{1,20}ing)|were|had|si|cuando
          |at\ first|a\ primera\ vista|initially)
      | in\ (?!(?:this|these|such|our|my|conclusion|summary|short|brief|fact|sum|all|light|view|a\ nutshell
          |the\ (?:given|present|above|described|case|context|options|scenario|question|list|image|vignette|end))\b)
      | en\ (?!(?:este|esta|estos|estas|conclusi[oó]n|resumen|definitiva|el\ caso|el\ contexto|base)\b)
      )\b[^.!?;\n]{0,140}$""",
    re.IGNORECASE | re.VERBOSE,
)
# What makes a statement one for another case, if an earlier one is plain: `would be`, `For smokers, `.
WOULD = re.compile(r"\b(?:would\ be|ser[ií]a)\b", re.IGNORECASE)
LED = re.compile(
    r"(?:^|[.!?;:\n(]\ ?)(?:for|with|without|para|con|sin)\ (?!(?:this|these|that|such|our|me|este|esta|estos|estas|mí"
    r"|question|pregunta|the\ (?:given|question|above|present))\b)[^.!?;\n]{1,140}$",
    re.IGNORECASE,
)
FILLER = re.compile(
    r"(?:(?:the|la|el|correct|most|likely|probably|clearly|definitely|therefore|thus|indeed|answer|respuesta|option"
    r"|choice|letter|opci[oó]n|letra|alternativa|inciso)\ ?:?[\ \n]){0,4}",
    re.IGNORECASE,
)
SPECIES = "difficile|coli|albicans|pylori|botulinum|tetani|trachomatis"
# What ends a label. `D-dimer`, `B cells`, `C. difficile`, `A?` are none of these.
END = re.compile(
    rf"""\ ?(?: $ | \n | [)\];!✓✔✅☑→⇒=—] | [<>](?!\ ) | [,'](?!\w) | [.:](?=[A-Z][a-z]) | :(?!\S)
      | \.{{1,3}}(?:$|[\n)'\]]|\ (?![a-z]|(?i:{SPECIES})\b))
      | [-–]{{1,2}}(?:\ (?!\d)|\n) )
    | \ (?:[-–](?!\ \d)|[(\[]|(?i:because|since|as|which|based|due|given|for|but|so|not|and\ not|with|in|on|from|by|here
        |per|according|rather|over|porque|ya|dado|debido|puesto|pues|que|por|en|seg[uú]n|con)\b
        (?!\ (?i:other|another|otr)))""",
    re.VERBOSE,
)
# `A is wrong`, `A: incorrect`.
REJECTED = re.compile(
    r"[\s.,:)\]'–—-]{0,4}(?:(?:is|es|was|are|seems|would be) )?(?:also |clearly |probably )?"
    r"(?:not(?! \w\b)|(?:is|would)n't|wrong|incorrect[ao]?|false|fals[ao]|no es|unlikely|excluded|ruled|less"
    r"|no(?= ?[.,;!\n(]|$| [a-z]\))|❌|✗)(?!\w)",
    re.IGNORECASE,
)
# The same in the sentence of a stated answer, also behind an insertion: `Therefore C, which is rare, is excluded`.
TAKEN_BACK = re.compile(
    r"""[)\]']{0,2}(?:,?\ (?:[-–—]\ )?(?:which|que)\ [^.;\n]{1,80}?(?:,|\ [-–—]))?(?:\ ?[(\[:–—-]\ ?|\ )
    (?:(?:is|was|are|es|est[aá]|seems|can\ be|has\ been)\ )?(?:also\ |clearly\ |probably\ )?
    (?:(?<=\ is\ )not|wrong|incorrect[ao]?|false|fals[ao]|unlikely|excluded|ruled\ out|descartad[ao]|no\ es|❌|✗)
    (?!\w)""",
    re.IGNORECASE | re.VERBOSE,
)
# What makes the mention of an option in the same clause no choice: `I would not give aspirin`.
NEGATION = re.compile(
    r"\b(?:not?|never|without|avoid\w*|un(?:necessary|likely|helpful)|contraindicated|inappropriate|incorrect|wrong|false"
    r"|rather than|instead of|neither|nor|against|exclud\w+|ruled? out|less|cannot|sin|nunca|ni|tampoco|evita\w*"
    r"|contraindicad\w|innecesari\w|incorrect\w|descart\w+)\b|n't\b|❌|✗",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"[.,;:!?\n]|\b(?:but|so|pero|sino)\b", re.IGNORECASE)
# A sentence about an option rather than a choice: `(A) would be ...`.
VERB = re.compile(
    r"[)\]]?(?:\ \([^()\n]{0,80}\))?\ (?:is|are|was|would|could|may|might|can|seems?|es|ser[ií]a|puede|podr[ií]a)\b",
    re.IGNORECASE,
)
# A heading after which other options are discussed.
EXPLANATION = re.compile(
    r"(?:^|(?<=[.)\]]\ ))(?:explanation|rationale|reason(?:ing)?|justification|analysis|(?:here's\ )?why|explicaci[oó]n"
    r"|justificaci[oó]n|razonamiento|motivo)(?:\ \w{1,12}){0,3}\ ?(?::|$)",
    re.IGNORECASE | re.MULTILINE,
)
LISTED = re.compile(r", ?(?P<other>[A-HJ-Z])\d{0,2}(?:,| and| or| y| o)\ ")  # after a letter: `D, E and K vitamins`
HEADED = re.compile(
    r"(?:answer|respuesta|solution|soluci[oó]n|conclusi[oó]n|choice|option)$", re.IGNORECASE
)  # not `Vitamin`
# What takes back all that was said before, if a choice follows.
RECONSIDERED = re.compile(
    r"(?:^|(?<=[.!?]\ ))(?:but\ |oh,?\ |no,?\ |hmm,?\ )?(?:wait|hmm|actually|on\ second\ thought|correction"
    r"|scratch\ that|let\ me\ re\w+|i\ made\ a\ mistake|sorry|espera|rectifico|corrección|pensándolo\ bien)\b"
    r"|(?<=,\ )(?:i\ meant?|quiero\ decir)\b",
    re.IGNORECASE | re.MULTILINE,
)
# What may stand before a label at the beginning of a line.
OPTION_WORD = r"(?:(?:the|la) )?(?:(?:answer|option|choice|letter|respuesta|opci[oó]n|letra|alternativa) )?"


def plain(text: str) -> str:
    """Return a text without markup, invisible characters and bullets, with single blanks and single line ends."""
    text = unicodedata.normalize("NFKC", text)
    for pattern, new in _REWRITTEN:
        text = pattern.sub(new, text)
    return text.strip()


def words(text: str) -> str:
    """Return a text's words in lower case, one blank between them; `1/4` and `2.5` are one word each."""
    return " ".join(re.findall(r"\d+(?:[.,/]\d+)+|\w+", text.casefold()))


def clause(text: str, start: int, end: int) -> str:
    """Return the words around a span, in its clause."""
    before = _CLAUSE.split(text[max(0, start - 100) : start])[-1]
    after = _CLAUSE.split(text[end : end + 100].lstrip(" .:)]"))[0]
    return f"{before} | {after}"


@dataclass(frozen=True)
class LabelPatterns:
    """Patterns made of the labels; each has the group `label`.

    Attributes:
        label: A label, with or without a bracket before it.
        line: The same with `Option` or `The letter` before it, as a line begins.
        hedged: What follows the first label of `A, possibly B`.
        begun: A label with a mark at the beginning of a sentence or line, with text behind it.
        joined: What follows the first label of `A or B`: `A and B are` is joined, `B, C is wrong` is not.
        claim: `B is the best`, `option (B) is the correct answer` (with the group `answer`), `C: correct`.
        mark: `(B)`, `B)` at the beginning of a clause, `B. ` of a line, and `option B` (with the group `option`).
    """

    label: re.Pattern[str]
    line: re.Pattern[str]
    hedged: re.Pattern[str]
    begun: re.Pattern[str]
    joined: re.Pattern[str]
    claim: re.Pattern[str]
    mark: re.Pattern[str]


@lru_cache(maxsize=64)
def label_patterns(labels: tuple[str, ...]) -> LabelPatterns:
    """Return the patterns for some labels."""
    one = "|".join(re.escape(label) for label in sorted(labels, key=len, reverse=True))
    upper = "|".join(re.escape(label.upper()) for label in labels)
    bare = rf"[(\[<']{{0,2}}(?P<label>{one})(?!\w)"
    join = r"[)\]]? ?\(?(?:[,;] ?(?:and |or |[yo] )?|/|& ?|\b(?:and/or|or|and|y|o|as well as) "
    join += r"|(?<=[)\]])(?=[(\[])|(?<=[)\]] )(?=[(\[]))(?:(?:option|la) )?[(\[]?"
    joined_end = r"(?=[)\]]? ?(?:$|[\n.,;!?/&]|(?:and|or|y|o|are|both|together)\b))"
    return LabelPatterns(
        label=re.compile(bare, re.IGNORECASE),
        line=re.compile(OPTION_WORD + bare, re.IGNORECASE),
        hedged=re.compile(
            rf"[)\]]?,? (?:or |and )?(?:possibly|perhaps|maybe|quiz[aá]s?|posiblemente) [(\[]?(?P<label>{one})(?!\w)",
            re.IGNORECASE,
        ),
        begun=re.compile(
            rf"(?:^|(?<=[.!?;] ))(?:[Oo]ption )?[(\[]?(?P<label>{upper})(?:[)\]][.:]?|:|\.(?! (?i:{SPECIES})\b)| [-–—])"
            r" ?(?=\w)",
            re.MULTILINE,
        ),
        joined=re.compile(rf"{join}(?P<label>{one})(?!\w){joined_end}", re.IGNORECASE),
        claim=re.compile(
            rf"""(?:{BEGIN}|\b(?i:so|thus|hence|only|and|but|that|think|option|choice|answer|letter|la|opci[oó]n|que)\ )
            [(\[]?(?P<label>{upper}|(?<=\w\ )(?i:{one}))(?!\w)[)\]]?(?:\ \([^()\n]{{0,80}}\))?
            (?i: (?:[:.]|\ [-–—])\ (?:correct[ao]?|la\ correcta|yes|sí)(?=\ ?(?:$|[.,;!\n]))
              | (?!\ are)\ {IS}(?:\ clearly|\ therefore|\ thus)?\ (?:the\ |la\ )?(?:most\ |mejor\ |single\ )?(?:
                  (?P<answer>(?:(?:correct|right|best|likely|appropriate)\ )?
                    (?:answer|option|choice|respuesta|opción))\b
                | (?:correct[ao]?|right|best|true|likely|appropriate)
                  (?:\ (?:next\ )?(?:diagnosis|treatment|step|test|explanation|management|statement|cause|fit|match))?
                  (?=\ ?(?:$|[.,;:!()\n])|\ (?:because|since|as|here|for|based|given|due|and|porque|ya|y)\b)
                )(?!\ (?:if|when|only|unless|in\ (?:an)?other|si|cuando)\b) )""",
            re.VERBOSE | re.MULTILINE,
        ),
        mark=re.compile(
            rf"""(?: (?P<option>(?<!\(){BEGIN}(?i:option|opci[oó]n)\ \(?)
              | {BEGIN}[(\[] | (?<!\(){BEGIN}(?=\w{{1,9}}\)) | ^(?=\w{{1,9}}[.:]\s) )(?P<label>{upper})(?!\w)""",
            re.VERBOSE | re.MULTILINE,
        ),
    )
