"""The patterns of secrets, personal data and server paths. Earlier ones win where two match the same text."""

from __future__ import annotations

from oresmith.evidence import secret_checks as check
from oresmith.evidence.scanner import Spec

_END = "A-Za-z0-9"
_Q = r"""["'\\]{0,4}"""
_IS = rf"{_Q}[ \t]{{0,3}}(?::=|=>|[:=])[ \t]{{0,3}}{_Q}"
"""Between a label and its value: quotes, escaped quotes, colon or equals sign."""
_VALUE = "[A-Za-z0-9!#%*+./:=?@^_~-]"
_WORDS12 = r"[a-z]{3,8}(?:[^A-Za-z]{1,8}[a-z]{3,8}){11,200}"


def _token(type: str, shape: str, after: str = "") -> Spec:
    """A token that its own prefix gives away."""
    return Spec("secret", type, shape, check.random_token, after=after)


def _labelled(type: str, shape: str, before: str = "") -> Spec:
    """A value that only its label gives away; it may be a human's choice, so no digest is kept."""
    return Spec("secret", type, shape, check.labelled_value, before=before, digest=False)


_KEY_BLOCK = r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"

SECRETS: tuple[Spec, ...] = (
    Spec("secret", "private_key", _KEY_BLOCK + r"[A-Za-z0-9+/=\\ \t\r\n]{0,8192}", before=""),
    Spec("secret", "age_key", "AGE-SECRET-KEY-1[0-9A-Z]{58}", check.upper_token, after=_END),
    Spec(
        "secret",
        "wallet_keyfile",
        rf"(?:secretPhrase|secretSeed|privateKey){_IS}(?P<v>[A-Za-z0-9+/= ]{{16,400}})",
        check.any_password,
        before="",
    ),
    Spec(
        "secret",
        "seed_phrase",
        r"(?i:seed|recovery|mnemonic|secret|backup)[ _-]?(?i:phrase|words?|mnemonic)?[^A-Za-z]{1,8}"
        rf"(?:(?i:is|are|key)[^A-Za-z]{{1,4}})?(?P<v>{_WORDS12})",
        check.labelled_seed,
        before="",
    ),
    Spec(
        "secret",
        "seed_phrase",
        _WORDS12,
        check.seed_phrase,
        before="a-z",
        after="a-z",
        also=check.seed_words_in_a_row,
    ),
    _token("anthropic_key", "sk-ant-[A-Za-z0-9_-]{20,200}"),
    _token("openrouter_key", "sk-or-(?:v1-)?[A-Za-z0-9_-]{20,200}"),
    _token("openai_key", "sk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,300}"),
    _token("openai_key", "sk-[A-Za-z0-9]{20,200}"),
    _token("huggingface_token", "(?:hf|api_org)_[A-Za-z0-9]{30,60}"),
    Spec("secret", "aws_access_key", "(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}", check.upper_token, after=_END),
    Spec(
        "secret",
        "aws_secret_key",
        rf"(?i:aws_?secret_?(?:access_?)?key){_IS}(?P<v>[A-Za-z0-9/+]{{40}})",
        check.random_token,
        before="",
        after="A-Za-z0-9/+=",
    ),
    _token("google_api_key", "AIza[A-Za-z0-9_-]{35}", after="A-Za-z0-9_-"),
    _token("google_oauth", r"(?:ya29\.[A-Za-z0-9_-]{20,400}|GOCSPX-[A-Za-z0-9_-]{28}|1//0[A-Za-z0-9_-]{40,200})"),
    _token("github_token", "(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{50,120})"),
    _token("gitlab_token", "gl(?:pat|ptt|dt|rt|oas|soat|ft|cbt|imt|agent)-[A-Za-z0-9_.-]{20,120}"),
    _token("slack_token", "(?:xox[abeoprs]-|xapp-[0-9]-)[A-Za-z0-9-]{10,250}"),
    Spec(
        "secret",
        "slack_webhook",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<v>[A-Za-z0-9_/-]{20,120})",
        check.random_token,
        before="",
    ),
    Spec(
        "secret",
        "discord_webhook",
        r"discord(?:app)?\.com/api/webhooks/[0-9]{5,25}/(?P<v>[A-Za-z0-9_-]{40,120})",
        check.random_token,
        before="",
    ),
    _token("jwt", r"eyJ[A-Za-z0-9_-]{8,4000}\.eyJ[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{0,4000}"),
    _token("chutes_token", r"cpk_[A-Za-z0-9._]{20,200}"),
    _token("npm_token", "npm_[A-Za-z0-9]{36}", after=_END),
    _token("pypi_token", "pypi-AgE[A-Za-z0-9_-]{50,400}"),
    _token("groq_key", "gsk_[A-Za-z0-9]{40,80}"),
    _token("replicate_token", "r8_[A-Za-z0-9]{30,60}"),
    _token("xai_key", "xai-[A-Za-z0-9]{40,120}"),
    _token("perplexity_key", "pplx-[A-Za-z0-9]{40,80}"),
    _token("nvidia_key", "nvapi-[A-Za-z0-9_-]{40,120}"),
    _token("stripe_key", "(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,120}"),
    _token("sendgrid_key", r"SG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,64}"),
    _token("telegram_token", "[0-9]{8,10}:AA[A-Za-z0-9_-]{33}", after="A-Za-z0-9_-"),
    _labelled("api_key_header", rf"(?i:x-(?:api|auth|access|goog-api)-?(?:key|token)){_IS}(?P<v>{_VALUE}{{12,400}})"),
    Spec(
        "secret",
        "auth_header",
        rf"(?i:authorization){_IS}(?i:bearer|basic|token|apikey)?[ \t]{{0,3}}(?P<v>[A-Za-z0-9._~+/=-]{{12,2000}})",
        check.labelled_value,
        before="",
    ),
    Spec("secret", "bearer_token", r"(?i:bearer)[ \t+]{1,3}(?P<v>[A-Za-z0-9._~+/=-]{16,2000})", check.labelled_value),
    Spec(
        "secret",
        "url_credentials",
        r"://[A-Za-z0-9._~%+-]{1,100}:(?P<v>[A-Za-z0-9._~%!$*+,;=^#-]{3,200})@[A-Za-z0-9]",
        check.any_password,
        before="",
        digest=False,
    ),
    Spec(
        "secret",
        "password",
        rf"(?i:passw(?:or)?d|passphrase|pwd){_Q}={_Q}(?P<v>{_VALUE}{{6,200}})",
        check.assigned_password,
        before="",
        digest=False,
    ),
    _labelled("password", rf"(?i:passw(?:or)?d|passphrase|pwd){_IS}(?P<v>{_VALUE}{{8,200}})"),
    _labelled(
        "env_assignment",
        r"(?:[A-Z][A-Z0-9_]{0,60}_)?(?:KEY|TOKEN|SECRET|PASS|PW|CREDENTIALS?)"
        rf"={_Q}(?P<v>{_VALUE}{{8,400}})",
        "A-Z",
    ),
    _labelled(
        "labelled_secret",
        r"(?i:(?:api|access|private|auth|account|signing|encryption|service)[ _-]?key|secret|token|credential)"
        rf"(?i:[_-]?(?:key|value|id))?{_IS}(?P<v>{_VALUE}{{16,400}})",
    ),
)

PERSONAL: tuple[Spec, ...] = (
    Spec("personal", "wallet_address", "5[1-9A-HJ-NP-Za-km-z]{46,47}", check.wallet_address, before=_END, after=_END),
    Spec(
        "personal",
        "email",
        r"[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,5}[A-Za-z]{2,24}",
        check.email,
        before="A-Za-z0-9._%+-",
        after="A-Za-z0-9@-",
        digest=False,
    ),
    Spec(
        "personal",
        "iban",
        "[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?",
        check.iban,
        before=_END,
        digest=False,
    ),
    Spec(
        "personal",
        "card",
        r"(?:4[0-9]{15}|5[1-5][0-9]{14}|2[2-7][0-9]{14}|3[47][0-9]{13}|35[0-9]{14}|6[0245][0-9]{14}"
        r"|(?:4[0-9]{3}|5[1-5][0-9]{2}|2[2-7][0-9]{2}|35[0-9]{2}|6[0245][0-9]{2})(?:-[0-9]{4}){3}"
        r"|(?:4[0-9]{3}|5[1-5][0-9]{2}|2[2-7][0-9]{2}|35[0-9]{2}|6[0245][0-9]{2})(?: [0-9]{4}){3}"
        r"|3[47][0-9]{2}(?:-[0-9]{6}-[0-9]{5}| [0-9]{6} [0-9]{5}))",
        check.card,
        before=r"A-Za-z0-9_.,+/=-",
        after=r"A-Za-z0-9_/-",
        digest=False,
    ),
    Spec(
        "personal",
        "phone",
        r"(?:\+[1-9][0-9]{0,2}[ .-]?(?:\([0-9]{1,4}\)[ .-]?)?[0-9]{2,4}(?:[ .-]?[0-9]{2,4}){1,4}"
        r"|09[0-9]{2}[ -]?[0-9]{3}[ -]?[0-9]{4}|\(0?[0-9]{1,3}\) ?[0-9]{3,4}-[0-9]{4})",
        check.phone,
        before=r"A-Za-z0-9_.,+/=#&-",
        after=r"A-Za-z0-9_/-",
        digest=False,
    ),
    Spec(
        "personal",
        "ipv4",
        r"(?:[0-9]{1,3}\.){3}[0-9]{1,3}",
        check.public_address,
        before="A-Za-z0-9_./-",
        after="A-Za-z0-9_.-",
        digest=False,
    ),
)

PATHS: tuple[Spec, ...] = (
    Spec(
        "path",
        "server_path",
        r"(?:/(?:home|root|Users|usr|var|opt|srv|etc|tmp|mnt|app|proc|private|workspace|sandbox)"
        r"(?:/[A-Za-z0-9_.@+-]{1,255}){1,32}|[A-Z]:\\{1,4}(?:Users|Windows|Program Files)\\{1,4}[A-Za-z0-9_. -]{1,64})",
        before="A-Za-z0-9_./:-",
    ),
)
