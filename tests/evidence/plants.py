"""Values to plant in trajectories, made at run time so that no source file holds anything that looks like a secret.

`PLANTS[type](rng)` gives the text to plant and the value in it that must be found.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
import string
from collections.abc import Callable
from typing import Any, NamedTuple

from oresmith.evidence.secret_checks import seed_words
from oresmith.records import (
    Format,
    Judgement,
    Message,
    Problem,
    ProxyCall,
    Source,
    SourceOutcome,
    Step,
    ToolCall,
    Trajectory,
)

SOURCE = Source(snapshot="s", file="f", file_sha256="", line=1, offset=0, length=0)
LETTERS = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


class Plant(NamedTuple):
    text: str
    value: str


Maker = Callable[[random.Random], Plant]


def trajectory(**fields: Any) -> Trajectory:
    return Trajectory(
        trajectory_id="t", identity="i", content="c", source=SOURCE, format=Format.SN15_ENVELOPE, **fields
    )


def call(name: str, arguments: Any, id: str = "call_0") -> ToolCall:
    return ToolCall(id=id, name=name, arguments=arguments if isinstance(arguments, str) else json.dumps(arguments))


def _some(rng: random.Random, count: int, letters: str = LETTERS) -> str:
    return "".join(rng.choices(letters, k=count - 3)) + "".join(rng.choice(kind) for kind in _kinds(letters))


def _kinds(letters: str) -> tuple[str, str, str]:
    """Three sets to draw the last letters from, so that a token has all kinds of letters it can have."""
    kinds = [
        "".join(letter for letter in kind if letter in letters)
        for kind in (string.ascii_lowercase, string.ascii_uppercase, string.digits)
    ]
    return tuple(kind or letters for kind in kinds)  # type: ignore[return-value]


def _token(*parts: str | tuple[int, str] | int) -> Maker:
    """A token of fixed parts and random ones (count, or count and letters)."""

    def make(rng: random.Random) -> Plant:
        value = "".join(
            part if isinstance(part, str) else _some(rng, part) if isinstance(part, int) else _some(rng, *part)
            for part in parts
        )
        return Plant(value, value)

    return make


def _labelled(label: str, count: int, letters: str = LETTERS, end: str = "") -> Maker:
    def make(rng: random.Random) -> Plant:
        value = _some(rng, count, letters)
        return Plant(label + value + end, value)

    return make


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def jwt(rng: random.Random) -> Plant:
    head = json.dumps({"alg": "HS256", "typ": "JWT"}).encode()
    body = json.dumps({"sub": _some(rng, 12), "iat": rng.randrange(10**9, 2 * 10**9)}).encode()
    value = ".".join([_base64url(head), _base64url(body), _base64url(rng.randbytes(32))])
    return Plant(value, value)


def private_key(rng: random.Random) -> Plant:
    frame = "-----{} " + rng.choice(["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "]) + "PRIVATE KEY-----"
    body = base64.b64encode(rng.randbytes(192)).decode()
    lines = [body[place : place + 64] for place in range(0, len(body), 64)]
    return Plant("\n".join([frame.format("BEGIN"), *lines, frame.format("END")]), frame.format("BEGIN"))


def seed_phrase(rng: random.Random, size: int = 0) -> Plant:
    """A phrase of BIP-39 from random entropy."""
    words, size = list(seed_words()), size or rng.choice([12, 15, 18, 21, 24])
    check = size // 3
    entropy = rng.randbytes((size * 11 - check) // 8)
    bits = f"{int.from_bytes(entropy, 'big'):0{len(entropy) * 8}b}"
    bits += f"{hashlib.sha256(entropy).digest()[0]:08b}"[:check]
    value = " ".join(words[int(bits[place : place + 11], 2)] for place in range(0, len(bits), 11))
    return Plant(value, value)


def labelled_seed(rng: random.Random) -> Plant:
    value = " ".join(rng.sample(list(seed_words()), 12))
    return Plant(f"{rng.choice(['seed phrase', 'Mnemonic', 'recovery words', 'secret phrase'])}: {value}", value)


def wallet_keyfile(rng: random.Random) -> Plant:
    value = "0x" + _some(rng, 64, HEX)
    return Plant(json.dumps({"accountId": "0x0", "secretSeed": value}), value)


def wallet_address(rng: random.Random) -> Plant:
    data = bytes([42]) + rng.randbytes(32)
    number, value = int.from_bytes(data + hashlib.blake2b(b"SS58PRE" + data).digest()[:2], "big"), ""
    while number:
        number, digit = divmod(number, 58)
        value = BASE58[digit] + value
    return Plant(value, value)


def email(rng: random.Random) -> Plant:
    value = f"{_some(rng, 8, string.ascii_lowercase)}.{_some(rng, 6)}@{_some(rng, 7, string.ascii_lowercase)}.com.ph"
    return Plant(value, value)


def phone(rng: random.Random) -> Plant:
    a, b, c = (_some(rng, count, "1234567890") for count in (3, 4, 7))
    value = rng.choice([f"+639{a[:2]}{c}", f"+63 9{a[:2]} {a} {b}", f"09{a[:2]}-{a}-{b}", f"0917{c}", f"(02) 8{a}-{b}"])
    return Plant(value, value)


def ipv4(rng: random.Random) -> Plant:
    value = f"8{rng.randrange(10)}.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(1, 256)}"
    return Plant(value, value)


def card(rng: random.Random) -> Plant:
    digits = [int(letter) for letter in rng.choice(["4", "51", "55", "2221", "6011"])]
    digits += [rng.randrange(10) for _ in range(15 - len(digits))]
    total = sum(
        digit if place % 2 else (2 * digit - 9 if digit > 4 else 2 * digit) for place, digit in enumerate(digits)
    )
    number = "".join(map(str, [*digits, -total % 10]))
    groups = [number[place : place + 4] for place in range(0, 16, 4)]
    value = rng.choice([number, " ".join(groups), "-".join(groups)])
    return Plant(value, value)


def iban(rng: random.Random) -> Plant:
    body = "NWBK" + _some(rng, 14, string.digits)
    number = "".join(str(int(letter, 36)) for letter in body + "GB00")
    value = f"GB{98 - int(number) % 97:02d}{body}"
    if rng.random() < 0.5:
        value = " ".join(value[place : place + 4] for place in range(0, len(value), 4))
    return Plant(value, value)


def server_path(rng: random.Random) -> Plant:
    value = f"/{rng.choice(['home', 'srv', 'tmp', 'opt', 'var'])}/{_some(rng, 8)}/agents/agent_{_some(rng, 5)}.py"
    return Plant(value, value)


def url_credentials(rng: random.Random) -> Plant:
    value = _some(rng, 14)
    return Plant(f"postgres://user:{value}@db.internal:5432/x", value)


UPPER = string.ascii_uppercase + "234567"
PLANTS: dict[str, list[Maker]] = {
    "openai_key": [_token("sk-", 48), _token("sk-proj-", (120, LETTERS + "-_")), _token("sk-", (32, HEX))],
    "anthropic_key": [_token("sk-ant-api03-", (93, LETTERS + "-_"))],
    "openrouter_key": [_token("sk-or-v1-", (64, HEX))],
    "huggingface_token": [_token("hf_", (34, string.ascii_letters))],
    "aws_access_key": [_token("AKIA", (16, UPPER)), _token("ASIA", (16, UPPER))],
    "aws_secret_key": [_labelled("aws_secret_access_key = ", 40, LETTERS + "/+")],
    "google_api_key": [_token("AIza", (35, LETTERS + "-_"))],
    "google_oauth": [_token("ya29.", (60, LETTERS + "-_")), _token("GOCSPX-", (28, LETTERS + "-_"))],
    "github_token": [_token("ghp_", 36), _token("gho_", 36), _token("github_pat_", 22, "_", 59)],
    "gitlab_token": [_token("glpat-", 20)],
    "slack_token": [_token("xoxb-", (12, string.digits), "-", 24), _token("xoxp-", (12, string.digits), "-", 32)],
    "slack_webhook": [_labelled("https://hooks.slack.com/services/", 40)],
    "discord_webhook": [_labelled("https://discord.com/api/webhooks/123456789/", 68)],
    "jwt": [jwt],
    "private_key": [private_key],
    "seed_phrase": [seed_phrase, labelled_seed],
    "wallet_keyfile": [wallet_keyfile],
    "chutes_token": [_token("cpk_", (32, HEX), ".", (32, HEX), ".", 32)],
    "npm_token": [_token("npm_", 36)],
    "pypi_token": [_token("pypi-AgEIcHlwaS5vcmc", 120)],
    "groq_key": [_token("gsk_", 52)],
    "replicate_token": [_token("r8_", 37)],
    "xai_key": [_token("xai-", 80)],
    "perplexity_key": [_token("pplx-", 48)],
    "nvidia_key": [_token("nvapi-", 64)],
    "stripe_key": [_token("sk_live_", 24)],
    "sendgrid_key": [_token("SG.", 22, ".", 43)],
    "telegram_token": [_token((9, "123456789"), ":AA", 33)],
    "age_key": [_token("AGE-SECRET-KEY-1", (58, string.ascii_uppercase + string.digits))],
    "api_key_header": [_labelled("x-api-key: ", 32), _labelled('{"X-API-Key": "', 32, end='"}')],
    "auth_header": [_labelled("Authorization: Bearer ", 40), _labelled('"authorization": "Basic ', 40, end='"')],
    "bearer_token": [_labelled("curl with bearer ", 40)],
    "url_credentials": [url_credentials],
    "password": [_labelled("password=", 10), _labelled('{"password": "', 12, end='"}'), _labelled("PASSWORD=", 14)],
    "env_assignment": [_labelled("CHUTES_API_KEY=", 24), _labelled("export HF_TOKEN='", 24, end="'")],
    "labelled_secret": [_labelled("api key: ", 32), _labelled('{"client_secret": "', 32, end='"}')],
    "wallet_address": [wallet_address],
    "email": [email],
    "phone": [phone],
    "ipv4": [ipv4],
    "card": [card],
    "iban": [iban],
    "server_path": [server_path],
}

Field = Callable[[str], Trajectory]
FIELDS: dict[str, Field] = {
    "problem.query": lambda text: trajectory(problem=Problem(query=text)),
    "problem.reward.title[0]": lambda text: trajectory(problem=Problem(reward={"title": [text]})),
    "messages[0].content": lambda text: trajectory(messages=[Message(role="tool", content=text)]),
    "messages[0].reasoning_content": lambda text: trajectory(
        messages=[Message(role="assistant", reasoning_content=text)]
    ),
    "messages[0].tool_calls[1].name": lambda text: trajectory(
        messages=[Message(role="assistant", tool_calls=[call("a", "{}"), call(text, "{}")])]
    ),
    "messages[0].tool_calls[0].arguments": lambda text: trajectory(
        messages=[Message(role="assistant", tool_calls=[call("find_product", {"q": text})])]
    ),
    "messages[0].tool_calls[0].original_id": lambda text: trajectory(
        messages=[Message(role="assistant", tool_calls=[ToolCall(id="c", name="n", arguments="{}", original_id=text)])]
    ),
    "tools[0].description": lambda text: trajectory(tools=[{"description": text}]),
    "steps[0].extra.note": lambda text: trajectory(steps=[Step(message=-1, extra={"note": text})]),
    "log[1].params.q": lambda text: trajectory(log=[ProxyCall(), ProxyCall(params={"q": text})]),
    "log[0].json_data.messages[0].content": lambda text: trajectory(
        log=[ProxyCall(json_data={"messages": [{"role": "user", "content": text}]})]
    ),
    "log[0].response.choices[0].values[0]": lambda text: trajectory(
        log=[ProxyCall(response={"choices": [{"A strange key": text}]})]
    ),
    "log[0].response.keys[0]": lambda text: trajectory(log=[ProxyCall(response={text: 1})]),
    "error.message": lambda text: trajectory(error={"type": "E", "message": text}),
    "outcome.score": lambda text: trajectory(outcome=SourceOutcome(score=text)),
    "judge.explanation": lambda text: trajectory(judge=Judgement(explanation=text)),
    "raw_dialogue[0]": lambda text: trajectory(raw_dialogue=[text]),
    "extra.envelope.note": lambda text: trajectory(extra={"envelope": {"note": text}}),
}
"""Place of a finding -> how a text gets there."""

WORDS = (
    "Mens Shirt cotton Size 35-40 (XL) 2025 New! Original 100% Korean style wireless TWS-i12 5.0 USB-C 220V 60Hz 1.5L "
    "12pcs/set 【COD】 authentic & ready stock, free shipping; SKU: AB-1234-XY #9981 9.9 sale ₱1,299.00 Café “best” "
    "3.5mm 4x4 50%off token ring key chain secret garden password-lock bracket gate valve seed pack phrase book cards"
).split()


def product_text(rng: random.Random) -> str:
    """What a catalogue and its tools say: words, ids, prices, codes, dates, hashes, measures."""
    codes = [
        lambda: str(rng.randrange(10**6, 10**10)),
        lambda: f"{rng.uniform(1, 99999):.2f}",
        lambda: f"{rng.random() * 1000}",
        lambda: str(rng.randrange(1_600_000_000_000, 1_900_000_000_000)),
        lambda: "".join(rng.choices(HEX, k=rng.choice([8, 32, 40, 64]))),
        lambda: f"{rng.randrange(10**12, 10**13)}",
        lambda: json.dumps(
            {"product_id": str(rng.randrange(10**9)), "price": rng.randrange(10**4), "service": ["COD"]}
        ),
        lambda: f"{rng.randrange(1, 40)}x{rng.randrange(1, 40)}x{rng.randrange(1, 9)}cm",
        lambda: f"chatcmpl-{_some(rng, 32, HEX)}",
        lambda: f"https://www.shop.example/products/i{rng.randrange(10**9)}-s{rng.randrange(10**10)}.html?q=a%20b",
        lambda: f"v{rng.randrange(9)}.{rng.randrange(9)}.{rng.randrange(9)}",
        lambda: f"{rng.randrange(1, 5)} pcs + {rng.randrange(1, 5)} free",
    ]
    return " ".join(rng.choice(WORDS) if rng.random() < 0.7 else rng.choice(codes)() for _ in range(60))
