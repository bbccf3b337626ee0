"""The models of generation: sources, endpoints and the ledger, batches, samples, releases.

Services write them, queries read them.
"""

from generation.models.barriers import BarrierRound, MergeEvent, NearMatch
from generation.models.batches import Batch, BatchRole, Comparison
from generation.models.endpoints import (
    ENDPOINT_FIELDS,
    ENV_NAME_PATTERN,
    LAUNCH_SETTINGS,
    Endpoint,
    EndpointDay,
    EndpointState,
)
from generation.models.engine import (
    Call,
    JobError,
    Lane,
    ProviderBatch,
    ProviderLine,
    SentImage,
    WorkerBeat,
    load_requests,
)
from generation.models.images import StoredImage
from generation.models.jobs import Job
from generation.models.probes import ProbeWork
from generation.models.prompts import PromptSet
from generation.models.releases import Erratum, Facet, Freeze, Release, ReleasedRubric, ReleasedSample
from generation.models.samples import (
    Band,
    Draft,
    Finding,
    Fingerprint,
    GateEvent,
    ReviewStratum,
    Rubric,
    Sample,
    SampleVersion,
    TaxonomyTerm,
    TextIndex,
)
from generation.models.sent_texts import SentText
from generation.models.sources import (
    Import,
    ImportRefusal,
    ImportStatus,
    NamedValues,
    Reference,
    SavedMapping,
    Source,
    SourceRecord,
)
