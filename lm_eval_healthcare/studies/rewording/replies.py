"""What a model writes around, or in place of, the rewording that it was asked for."""

from __future__ import annotations

import re

from lm_eval_healthcare.studies.rewording.number_words import plain

_FLAGS = re.IGNORECASE
_WHAT = r"(?:(?:re-?worded|re-?phrased|re-?written|paraphrased|revised|alternative|new|final|simplified)\s+)"
_THING = (
    r"(?:version|answer|text|response|sentence|statement|passage|paragraph|rewording|rephrasing|paraphrase|rewrite|"
    r"wording|output)"
)
_LABEL = re.compile(
    rf"\W{{0,4}}(?:(?:the\s+)?{_WHAT}{{0,2}}{_THING}(?:\s+\d{{1,2}})?|re-?worded|re-?phrased|re-?written|paraphrased"
    r"|(?:respuesta|texto|versi[oó]n)\s+(?:reformulad[oa]|reescrit[oa]|parafrasead[oa])|reformulaci[oó]n"
    r"|par[aá]frasis)\s*\*{0,2}\s*:\s*\*{0,2}\s*",
    _FLAGS,
)
_OPENING = re.compile(
    r"(?:(?:sure|certainly|of course|absolutely|okay|ok|no problem|claro|por supuesto"
    r"|desde luego)\b[^\n:]{0,40}?[!,.:]\s*)?"
    r"(?:here(?:'s| is| are|’s)|below is|this is|the following is|i(?:'ve|’ve| have) (?:reworded|rephrased|rewritten)"
    r"|aqu[ií] (?:tienes|est[aá]|tiene|va)|a continuaci[oó]n)\b[^\n:]{0,100}"
    r"(?:re-?word|re-?phras|re-?writ|paraphras|version|reformul|parafras|par[aá]fras|reescri"
    r"|versi[oó]n|\btext\b|\btexto\b|\bway (?:to|of) (?:say|put|phras))[^\n:]{0,80}:\s*",
    _FLAGS,
)
_COURTESY = re.compile(
    r"(?:sure|certainly|of course|absolutely|claro|por supuesto)(?: thing)?[!.]\s+|sure[!,.:]\s*\n", _FLAGS
)
_CLOSING = re.compile(
    r"\n\s*\W{0,3}(?:note\s*:|i hope (?:this|that)|let me know|please let me know|is there anything|feel free|"
    r"(?:this|the) (?:rewording|version|rewritten|reworded|rephrased)\b|nota\s*:\s*(?:he|esta)\b"
    r"|espero que)[^\n]{0,400}\s*\Z",
    _FLAGS,
)
_FENCE = re.compile(r"```[a-z]{0,12}[ \t]*\n(.*?)\n?```\s*\Z", re.IGNORECASE | re.DOTALL)
_QUOTES = {'"': '"', "“": "”", "«": "»", "'": "'", "‘": "’", "„": "“", "`": "`"}
_ROUNDS = 4

_REFUSAL = re.compile(
    r"\b(?:i(?:'m|’m| am) (?:very |so |really )?(?:sorry|afraid)\b|i apologi[sz]e\b|as an? (?:ai|artificial"
    r"|language model|large language)"
    r"|i(?:'m|’m| am) (?:not able|unable|just an? ai|an ai\b|not a (?:doctor|physician|medical))"
    r"|i (?:can(?:not|'t|’t| not)|won't|won’t|will not|must decline|do not|don't) (?:be able to )?"
    r"(?:help|assist|provide|fulfil|comply|rewrite|reword|rephrase|answer|do that|give|offer|complete|generate"
    r"|create|feel comfortable)"
    r"|unable to (?:assist|help|comply|fulfil|reword|rephrase|provide)"
    r"|i(?:'m|’m| am) not (?:comfortable|allowed|permitted|authori[sz]ed"
    r"|in a position|going to (?:re|para|help|assist))"
    r"|i (?:must|have to|need to|will have to) (?:decline|refuse)|against my (?:guidelines|polic|rules|programming)"
    r"|my (?:guidelines|polic(?:y|ies)|rules|programming|safety \w+) (?:do|does|don|prevent|prohibit|forbid|will)"
    r"|(?:rewording|rephrasing|rewrite|paraphrase|paraphrasing|reformulation) (?:is|isn't|isn’t) (?:not )?"
    r"(?:possible|available|allowed|permitted)"
    r"|no (?:estoy|me encuentro) (?:autorizad|en condiciones|capacitad)|no me (?:est[aá] permitido|es posible)"
    r"|mis (?:directrices|normas|pol[ií]ticas) (?:no|me)"
    r"|lo siento\b|lo lamento\b|como (?:una )?(?:ia\b|inteligencia artificial|modelo de lenguaje)"
    r"|no puedo (?:ayudar|proporcionar|reescribir|reformular|cumplir|responder|dar|ofrecer)"
    r"|me disculpo\b)",
    _FLAGS,
)
_TASK_TALK = re.compile(
    r"\b(?:the (?:question|user|prompt) (?:asks|is asking|wants|states|reads|was)|the (?:original|given|provided) "
    r"(?:text|answer|response|statement|sentence|passage|question|message)|(?:the|this) (?:answer|text|passage"
    r"|statement|rewording) (?:above|below|"
    r"says|states that|explains that|mentions|is asking|can be re)|(?:reword|rephrase|rewrite|paraphrase) (?:the"
    r"|this|it|your|my|following|that)\b"
    r"|your (?:answer|text|response|question|message) (?:is|was|says|should|has been)"
    r"|(?:please )?provide (?:me )?(?:with )?the (?:text|answer)"
    r"|let me know if you(?:'d like| would like|’d like| want| need) (?:another|me to|a different|a shorter|a longer"
    r"|any (?:other|further|changes|adjust\w+|modif\w+))|(?:would|do) you (?:like|want) (?:me|another)"
    r"|if you(?:'d|’d| would) like (?:me|another)"
    r"|without changing (?:its|the) meaning|keep(?:ing)? the (?:same )?meaning|in your own words"
    r"|la pregunta (?:pide|pregunta|dice)|el (?:texto|mensaje) original|la respuesta (?:original|dice|proporcionada)"
    r"|(?:reformul|reescrib|parafrase)(?:a|e|ar|ir|o) (?:el|la|este|esta|lo)\b|sin cambiar (?:el"
    r"|su) (?:significado|sentido))",
    _FLAGS,
)
_FRESH_ANSWER = re.compile(
    r"\b(?:the (?:best|correct|right|most appropriate) (?:answer|option|choice)\b|the answer is\b"
    r"|la (?:respuesta|opcion) (?:correcta|es)\b)"
)
_VERDICT = re.compile(
    r"\b(?:the|this|your|el|la|este|esta|tu|su) (text|answer|sentence|paragraph|texto|respuesta|frase) "
    r"(?:(?:is|looks|seems|appears|es|esta|parece) )"
    r"(?:already |very |quite |medically |perfectly |ya |muy |bien )?"
    r"(?:accurate|correct|well|clear|fine|good|incorrect|wrong|inaccurate|concise|correct[oa]|clar[oa]|bien|escrit[oa])\b"
    r"|\bi (hope) (?:this|that|it) helps\b|\b(espero) que (?:esto |te |le ){0,2}(?:sirva|ayude)\b"
)
"""A judgement of the text in place of a rewording, and good wishes; the word in a group is the one that makes it so."""
_OWN_LIMITS = re.compile(
    r"\b(?:i (?:can(?:not| not|'t)|could not|couldn't|am (?:not able|unable|sorry|afraid|not a|an? ai)|do not"
    r"|don't|won't|apologi[sz]e)|i'm (?:sorry|afraid|unable|not)|as an? (?:ai|artificial|language|large)|unable to"
    r"|sorry|no puedo|lo siento|lamento|no me es posible|como (?:una )?(?:ia|inteligencia|modelo))\b"
)
_TASK_REFUSED = re.compile(
    r"\b(?:re-?word\w*|re-?writ\w*|re-?phras\w*|paraphras\w*|assist|comply|fulfil\w*"
    r"|reescrib\w*|reformul\w*|request|solicitud)\b"
)
_DANGLING = re.compile(
    r"(?:[,(\[–—]|[^\W\d_]-|\b(?:the|(?-i:a)|an|of|to|in|on|at|for|with|by|from|and|or|but|as|than|that|which|who|whose|when|if"
    r"|be|been|should|must|can|may|because|into|el|la|los|las|un|una|de|del|al|en|con|por|para|(?-i:[yo])|que|se|su"
    r"|sus|cuando|si|como))\Z",
    _FLAGS,
)
_WORD = re.compile(r"[^\W\d_]+")
_START = 400
_QUESTION_WORDS = 6
_REPEATED_SHARE = 0.8
_CONTENT = 8
_OVERLAP = 0.1


def cleaned(text: str) -> str:
    """Return a model's reply without what is no part of the rewording.

    Taken away are a preamble such as "Here is a rewording:", a label, quotation marks or a code fence around all of
    it, and a closing remark about the rewording.

    Args:
        text: The reply without the model's reasoning.

    Returns:
        The rest, without blanks around it; empty if nothing else was written.
    """
    text = text.strip()
    for _ in range(_ROUNDS):
        before = text
        for pattern in (_OPENING, _COURTESY, _LABEL):
            match = pattern.match(text[:_START])
            if match:
                text = text[match.end() :].strip()
        closing = _CLOSING.search(text, max(0, len(text) - _START - 100))
        if closing and closing.start():
            text = text[: closing.start()].strip()
        text = _unwrapped(text)
        if text == before:
            break
    return text


def _unwrapped(text: str) -> str:
    """Take away a code fence, bold type or quotation marks around the whole text."""
    if text.startswith("```"):
        match = _FENCE.match(text)
        if match and "```" not in match[1]:
            return match[1].strip()
    if len(text) > 4 and text[:2] == text[-2:] == "**" and "**" not in text[2:-2]:
        return text[2:-2].strip()
    closing = _QUOTES.get(text[:1])
    if closing and len(text) > 2 and text.endswith(closing):
        inner = text[1:-1]
        if closing not in inner and text[0] not in inner:
            return inner.strip()
    return text


def refusal(text: str) -> str:
    """Return the words with which a reply declines; empty if it does not."""
    match = _REFUSAL.search(text[:_START])
    return match[0] if match else ""


def declines(text: str, original: str) -> str:
    """Return the words with which a reply declines what was asked; empty if it does not.

    An answer may itself say that its author cannot tell, and a rewording of it then does so, too.

    Args:
        text: The reply.
        original: What it should reword.
    """
    found = refusal(text)
    if not found or refusal(original):
        return ""
    own = _OWN_LIMITS.search(plain(original).replace("’", "'"))
    if own and not _TASK_REFUSED.search(plain(text[:_START])):
        return ""
    return found


def breaks_off(text: str, original: str) -> str:
    """Return the last words of a reply that ends in the middle of a sentence; empty if it does not.

    Args:
        text: The reply.
        original: What it should reword; one that breaks off itself is no measure.
    """
    end = text.rstrip()[-40:]
    return end if _DANGLING.search(end) and not _DANGLING.search(original.rstrip()[-40:]) else ""


def talk_about_task(text: str, original: str) -> str:
    """Return the words with which a reply talks about the task in place of doing it.

    Args:
        text: The reply.
        original: What it should reword: words that are in it are no talk.

    Returns:
        The words; empty if there are none.
    """
    match = _TASK_TALK.search(text[:4000])
    if match and match[0].lower() not in original.lower():
        return match[0]
    verdict = _VERDICT.search(plain(text[:4000]))
    if verdict and not any(word in plain(original) for word in verdict.groups() if word):
        return verdict[0]
    fresh = _FRESH_ANSWER.search(plain(text[:_START]))
    known = re.search(r"\b(?:answers?|options?|choices?|respuestas?|opcion(?:es)?|opción)\b", original, _FLAGS)
    return fresh[0] if fresh and not known else ""


def repeats_question(text: str, original: str, question: str) -> bool:
    """Say whether a reply repeats most of the question, which the original does not."""
    asked = _groups(question)
    if len(asked) < _QUESTION_WORDS - 2:
        return False
    share = len(asked & _groups(text)) / len(asked)
    return share >= _REPEATED_SHARE and len(asked & _groups(original)) / len(asked) < _REPEATED_SHARE / 2


def _groups(text: str) -> set[tuple[str, ...]]:
    words = [plain(word) for word in _WORD.findall(text[:20_000])]
    return set(zip(words, words[1:], words[2:], strict=False))


def content_shared(original: str, text: str) -> float:
    """Return how much of the shorter text's content words is in the other one.

    Returns:
        From 0 to 1; 1 for texts of too few words to tell.
    """
    before, after = _content(original), _content(text)
    if min(len(before), len(after)) < _CONTENT:
        return 1.0
    return len(before & after) / min(len(before), len(after))


def unrelated(original: str, text: str) -> bool:
    """Say whether a reply has next to no content word of the original."""
    return content_shared(original, text) < _OVERLAP


def _content(text: str) -> set[str]:
    """Beginnings of the longer words."""
    return {plain(word).replace("ae", "e").replace("oe", "e")[:5] for word in _WORD.findall(text) if len(word) > 4}
