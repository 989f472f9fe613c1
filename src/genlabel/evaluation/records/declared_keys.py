"""Declared names and keys of fingerprints: renaming a class, a parameter or a module edits a line here, no record.

Each class of ours whose settings stand in committed records has one line: its name in fingerprints, then its
parameters. `parameter=key` gives a renamed parameter its old key. `-parameter` does not change numbers and does not
count. `parameter?` was added after records had been made: it counts where its value is not the default, so that older
records stay current.
"""

DECLARED_CLASSES: dict[str, str] = {
    # densities
    "DiscriminantDensity": "discriminant pooling shrinkage target reg",
    "FixedDensity": "fixed models",
    "FlowDensity": "flow kind transforms bins hidden epochs batch_size learning_rate "
    "validation_fraction=held_out patience jitter device -verbose random_state",
    "ForestDensity": "forest n_estimators=trees min_samples_leaf=min_leaf max_features max_points random_state",
    "GANDensity": "gan norm latent_dim charts shape hidden steps batch_size learning_rate penalty scale standardize "
    "encoder restarts inversion_steps min_coverage retries device -verbose random_state",
    "GaussianDensity": "gaussian shrinkage reg",
    "KernelDensity": "kernel bandwidth leave_one_out covariance max_points random_state",
    "MixtureDensity": "mixture n_components=components covariance reg max_iter random_state",
    "PowerTransformedDensity": "power-transformed density transform",
    "SphericalGaussian": "spherical-gaussian mean variance",
    "StackedDensity": "stacked candidates cv method cross_fit random_state",
    "VAEDensity": "vae latent_dim=latent hidden noise floor n_samples train_samples epochs batch_size learning_rate "
    "validation_fraction=held_out patience jitter device -verbose random_state",
    # mixing, labels, attacks, optimizers
    "GenMix": "genmix density n_aug lam eps output standardize prefit random_state",
    "ManifoldMixup": "manifold-mixup alpha depths lam_per",
    "Mixup": "mixup alpha lam_per pairs",
    "LinearLabel": "linear",
    "LogisticLabel": "logistic sigma",
    "FGSM": "fgsm eps norm bounds targeted",
    "Adam": "adam betas eps milestones decay",
    "SGD": "sgd momentum milestones decay",
    # classifiers
    "GridSearch": "grid cv scoring ensemble restore_best time_limit -verbose",
    "HalvingSearch": "halving cv scoring ensemble time_limit -verbose",
    "TrainingOptions": "training learning_rate weight_decay epochs batch_size optimizer standardize device",
    "AdaMixupClassifier": "adamixup-classifier network policy_hidden intrusion_weight alternating class_weight search "
    "training random_state",
    "GenLabelClassifier": "genlabel-classifier network density gamma mixer clean_fraction space priors "
    "pool_with_density class_weight search training random_state",
    "GenerativeClassifier": "generative-classifier density priors class_weight standardize",
    "MixupClassifier": "mixup-classifier network mixer labeler exclude_intrusion clean_fraction calibrate class_weight "
    "search training random_state",
    "BaselineClassifier": "baseline-classifier baseline random_state device?",
}
