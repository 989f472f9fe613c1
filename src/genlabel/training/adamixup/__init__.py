"""AdaMixup: a policy that draws the mixing ratio and a critic that detects intrusion, trained with the classifier."""

from genlabel.training.adamixup.network_step import AdaMixupRun, train_adamixup_network
from genlabel.training.adamixup.trainer import AdaMixupNetworks, mixing_share, policy_range, train_adamixup

__all__ = [
    "AdaMixupNetworks",
    "AdaMixupRun",
    "mixing_share",
    "policy_range",
    "train_adamixup",
    "train_adamixup_network",
]
