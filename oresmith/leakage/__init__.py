"""Keys that recognise a problem in any spelling, clusters of problems, the pools they are kept in, and leak checks.

`problem_keys` gives the keys of a problem, `cluster` and `extend` the clusters, `assign` the pools by the ledger, and
`find_leaks` what two sets of rows have in common.
"""

from oresmith.leakage.clusters import ClusterParams, ClusterReport, Clusters, cluster, extend
from oresmith.leakage.edges import Edge, EdgeKind, Glue
from oresmith.leakage.keys import KEYS_VERSION, ProblemKeys, problem_keys
from oresmith.leakage.leaks import Leak, Row, find_leaks
from oresmith.leakage.ledger import LedgerLine, encode_ledger, read_ledger
from oresmith.leakage.neardup import NearParams
from oresmith.leakage.pools import Assignment, Fact, PoolParams, Split, assign, pool_counts, trainable
from oresmith.leakage.table import KeyTable
from oresmith.leakage.vault import Vault, encode_vault, read_secret

__all__ = [
    "KEYS_VERSION",
    "Assignment",
    "ClusterParams",
    "ClusterReport",
    "Clusters",
    "Edge",
    "EdgeKind",
    "Fact",
    "Glue",
    "KeyTable",
    "Leak",
    "LedgerLine",
    "NearParams",
    "PoolParams",
    "ProblemKeys",
    "Row",
    "Split",
    "Vault",
    "assign",
    "cluster",
    "encode_ledger",
    "encode_vault",
    "extend",
    "find_leaks",
    "pool_counts",
    "problem_keys",
    "read_ledger",
    "read_secret",
    "trainable",
]
