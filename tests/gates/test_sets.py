"""Set gates: the first row stays, conflicts fall together, and no later snapshot touches an earlier decision."""

from hypothesis import given, settings
from hypothesis import strategies as st

from oresmith.gates import decide
from oresmith.param_data import Gate
from tests.gates.rows import good, sha, table


def decided(*snapshots, gate=None):
    frame = decide([table(*rows) for rows in snapshots], gate or Gate())
    return {(row["snapshot"], row["file"], row["line"]): row["reasons"] for row in frame.iter_rows(named=True)}


def test_equal_rows_are_kept_once_whatever_their_order():
    first, again = good(1, trajectory_id=sha("t")), good(2, trajectory_id=sha("t"))
    assert decided([again, first]) == {("s1", "a.jsonl", 1): [], ("s1", "a.jsonl", 2): ["duplicate"]}


def test_one_identity_with_two_contents_rejects_both():
    rows = [good(1, identity=sha("i")), good(2, identity=sha("i"))]
    assert set(map(tuple, decided(rows).values())) == {("id_conflict",)}


def test_a_rejected_row_never_shadows_a_good_one():
    rows = [
        good(1, problem="p", call_sequence=sha("c"), origin="B"),
        good(2, problem="p", call_sequence=sha("c")),
    ]
    assert decided(rows)["s1", "a.jsonl", 2] == []


def test_the_same_calls_on_the_same_problem_are_kept_once():
    rows = [good(line, problem="p", call_sequence=sha("c")) for line in (1, 2, 3)]
    assert list(decided(rows).values()) == [[], ["duplicate_calls"], ["duplicate_calls"]]


def test_the_same_calls_on_another_problem_are_no_duplicate():
    rows = [good(1, problem="p", call_sequence=sha("c")), good(2, problem="q", call_sequence=sha("c"))]
    assert list(decided(rows).values()) == [[], []]


def test_unknown_problems_and_missing_calls_equal_nothing():
    rows = [good(line, problem=None, call_sequence=None) for line in (1, 2)]
    assert list(decided(rows).values()) == [[], []]


def test_validators_that_disagree_reject_the_agents_success():
    rows = [
        good(1, agent_version="a", problem="p", validator="v1"),
        good(2, agent_version="a", problem="p", validator="v2", outcome="failure"),
        good(3, agent_version="b", problem="p", validator="v1"),
    ]
    assert list(decided(rows).values()) == [["not_unanimous"], ["outcome"], []]


def test_too_few_validators_is_a_parameter():
    rows = [good(1, agent_version="a", problem="p", validator="v1"), good(2)]
    assert list(decided(rows, gate=Gate(unanimity_min_validators=2)).values()) == [["too_few_validators"]] * 2
    assert list(decided(rows, gate=Gate(unanimity_min_validators=0)).values()) == [[], []]


def test_two_validators_that_agree_satisfy_a_minimum_of_two():
    rows = [good(line, agent_version="a", problem="p", validator=f"v{line}") for line in (1, 2)]
    assert list(decided(rows, gate=Gate(unanimity_min_validators=2)).values()) == [[], []]


def test_a_newcomer_is_rejected_and_the_accepted_row_stays():
    old = good(1, identity=sha("i"), problem="p", agent_version="a", validator="v1", call_sequence=sha("c"))
    new = good(1, snapshot="s2", identity=sha("i"), problem="p", call_sequence=sha("c"))
    dissent = good(2, snapshot="s2", problem="p", agent_version="a", validator="v2", outcome="failure")
    late = good(3, snapshot="s2", problem="p", agent_version="a", validator="v3")
    result = decided([old], [new, dissent, late])
    assert result["s1", "a.jsonl", 1] == []
    assert result["s2", "a.jsonl", 1] == ["id_conflict"]
    assert result["s2", "a.jsonl", 3] == ["not_unanimous"]


def test_new_metadata_makes_no_rejected_row_better():
    old = good(1, content=sha("c"), judge_quality=0.1)
    new = good(1, snapshot="s2", content=sha("c"), judge_status="missing", judge_quality=None)
    assert decided([old], [new])["s2", "a.jsonl", 1] == ["rejected_before"]
    assert decided([old], [new], gate=Gate(rejected_before="pass"))["s2", "a.jsonl", 1] == []


rows_of = st.lists(
    st.tuples(
        st.sampled_from(["p", "q"]),
        st.sampled_from(["c", "d"]),
        st.sampled_from(["i", "j", "k", "l"]),
        st.sampled_from(["success", "failure", "unknown"]),
        st.sampled_from([None, "v1", "v2"]),
    ),
    min_size=1,
    max_size=6,
)


def build(snapshot, facts):
    return [
        good(
            line,
            snapshot=snapshot,
            problem=problem,
            call_sequence=sha(calls),
            identity=sha(identity),
            content=sha((problem, calls, identity, line % 2)),
            trajectory_id=sha((problem, calls, identity, line % 2)),
            outcome=outcome,
            agent_version="a",
            validator=validator,
        )
        for line, (problem, calls, identity, outcome, validator) in enumerate(facts, 1)
    ]


@settings(max_examples=60, deadline=None)
@given(rows_of, rows_of, st.randoms())
def test_appending_a_snapshot_changes_no_earlier_decision_and_order_never_matters(first, second, random):
    old, new = build("s1", first), build("s2", second)
    before = decided(old)
    shuffled_old, shuffled_new = random.sample(old, len(old)), random.sample(new, len(new))
    after = decided(shuffled_old, shuffled_new)
    assert {place: reasons for place, reasons in after.items() if place[0] == "s1"} == before
    assert after == decided(old, new)
