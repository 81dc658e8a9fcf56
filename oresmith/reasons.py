"""The one enum of reject reasons. Order matters: a row keeps all its reasons, the first in this order decides.

The sentence of each is what a card and `oresmith funnel` print beside its count.
"""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """Why a row is not passed on. The value is the code in every reject file."""

    sentence: str

    def __new__(cls, code: str, sentence: str) -> Reason:
        """Attach the sentence to the member."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.sentence = sentence
        return member

    # The stream or the line cannot be read (stage normalize).
    STREAM_TRUNCATED = "stream_truncated", "The compressed stream ends in the middle; what came before it was read."
    STREAM_CORRUPT = "stream_corrupt", "The compressed stream is damaged; nothing after this byte can be read."
    BOMB = "bomb", "The stream expands beyond the allowed ratio, size or number of rejects; reading stopped there."
    LINE_TOO_LONG = "line_too_long", "The line is longer than the limit; it was skipped without being held in memory."
    LINE_TORN = "line_torn", "The last line has no line end and is not complete JSON."
    BLANK_LINE = "blank_line", "The line is empty or holds only white space."
    INVALID_UTF8 = "invalid_utf8", "The line is not UTF-8."
    NUL_BYTE = "nul_byte", "The line holds a NUL byte."
    INVALID_JSON = "invalid_json", "The line is not JSON (NaN and Infinity are not)."
    LONE_SURROGATE = "lone_surrogate", "A string holds half of a surrogate pair, which no UTF-8 text can carry."
    HUGE_INTEGER = "huge_integer", "An integer does not fit 64 bits; parsers would change it silently."
    NESTED_TOO_DEEP = "nested_too_deep", "The JSON is nested deeper than the limit."
    DUPLICATE_KEY = "duplicate_key", "An object holds the same key twice, so its meaning depends on the parser."
    UNKNOWN_FORMAT = "unknown_format", "The row has the shape of no known trace format."
    AMBIGUOUS_FORMAT = "ambiguous_format", "The row fits two trace formats; nothing is guessed."
    WRONG_SHAPE = "wrong_shape", "The row is of a known format, but a field that is needed has the wrong type."

    # The row as a trajectory (stage gate, row gates).
    AGENT_FAILED = "agent_failed", "The arena reports that the agent failed."
    TIMED_OUT = "timed_out", "The arena reports that the agent ran out of time."
    NO_DIALOGUE = "no_dialogue", "There is no dialogue, whatever the status says."
    MALFORMED_STEP = "malformed_step", "A step is not of the format's shape, so the scorer cannot judge the dialogue."
    UNPAIRED_CALL = "unpaired_call", "A tool call has no result paired with it, or a result answers no call."
    RECOMMEND_NOT_ONCE = "recommend_not_once", "recommend_product is not called exactly once."
    RECOMMEND_INVALID = "recommend_invalid", "The recommendation cannot be parsed, or an id in it does not resolve."
    TOO_LONG = "too_long", "The trajectory has more tokens than the limit under the named tokenizer."
    LENGTH_UNKNOWN = "length_unknown", "The tokens could not be counted and the parameters ask for a length."
    THINK_THEN_STOP = "think_then_stop", "The agent stops without a recommendation or without terminate."
    UNKNOWN_TOOL = "unknown_tool", "A call names a tool that is not in the tool schema."
    INVALID_CALL = "invalid_call", "A call's arguments do not fit the tool schema."
    FORMAT = "format", "The format score is below the threshold."
    OUTCOME = "outcome", "The strict outcome is a failure."
    OUTCOME_UNKNOWN = "outcome_unknown", "The outcome could not be scored and the source states none."
    REASONING = "reasoning", "The reasoning score is below the threshold."
    REASONING_MISSING = "reasoning_missing", "There is no usable reasoning score and the parameters ask for one."
    ORIGIN_SUBTASK = "origin_subtask", "The tool calls come from the agent's program, not from the model (Axis B)."
    ORIGIN_UNKNOWN = "origin_unknown", "It cannot be told whether the model emitted the tool calls."
    PROVENANCE = "provenance", "The call log is absent or written by the agent itself."
    SECRET = "secret", "A secret (key, token, password, seed phrase) was found."
    PERSONAL_DATA = "personal_data", "Personal data was found."
    JUDGE_INJECTION = "judge_injection", "The trajectory tries to instruct the judge."

    # The row among the others (stage gate, set gates).
    REJECTED_BEFORE = "rejected_before", "An earlier snapshot holds the same content, and it was rejected there."
    ID_CONFLICT = "id_conflict", "Rows of the same declared identity differ in content; none can be trusted."
    DUPLICATE = "duplicate", "The same identity and content was seen before."
    DUPLICATE_CALLS = "duplicate_calls", "The same problem was solved by the same sequence of calls before."
    NOT_UNANIMOUS = "not_unanimous", "The validators of this agent version and problem do not agree on success."
    TOO_FEW_VALIDATORS = "too_few_validators", "Fewer validators than the parameters ask for scored this attempt."

    # The row in the corpus (stage corpus), once the problems' pools are known.
    HELDOUT_GOLD = "heldout_gold", "It recommends (or views, if so set) the gold product of a guarded problem."
    ROW_TOO_LARGE = "row_too_large", "The published row would be longer than the limit."
    OVER_PROBLEM_CAP = "over_problem_cap", "Its problem has as many better ranked trajectories as the cap allows."
    OVER_CLUSTER_CAP = "over_cluster_cap", "Its cluster has as many better ranked trajectories as the cap allows."


ORDER: dict[str, int] = {reason.value: place for place, reason in enumerate(Reason)}
"""Code -> place in the order of precedence."""


def in_order(codes: list[str]) -> list[str]:
    """Sort reason codes by precedence, each once."""
    return sorted(set(codes), key=ORDER.__getitem__)


SENTENCES: dict[str, str] = {reason.value: reason.sentence for reason in Reason}
"""Code -> sentence. A datatrove filter may reject for a reason of its own, which is not in here."""
