"""AdaMixup: a policy that draws the mixing ratio and a critic that detects intrusion, trained with the classifier."""
