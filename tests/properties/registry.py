"""Which property tests hold for each public name. A public name that is not here fails test_registry.py.

A test is ``file::test``, under tests/. Where a file of its own tests a name by properties already, it is named here and
not written again.
"""

from __future__ import annotations

FIT = "properties/test_fit_properties.py::"
ESTIMATE = "properties/test_estimate_properties.py::"
BIAS = "properties/test_bias_properties.py::"
UMBRELLA = "command_line/test_umbrella_windows.py::"
LEARN = "properties/test_learn_properties.py::"
MBAR = "properties/test_mbar_properties.py::"
OUTPUT = "properties/test_output_properties.py::"
STUDY = "properties/test_study_fuzz.py::"
EXPRESSIONS = "unit/test_library_expressions.py::"
INVARIANCE = "weights/test_invariances.py::"

_WEIGHTS = FIT + "test_weights_probabilities_and_what_is_counted_from_them"
_EQUATIONS = FIT + "test_the_equations_hold_written_by_hand"
_ONE_FIT = FIT + "test_a_matrix_a_frame_and_a_log_matrix_give_one_fit"
_IDENTIFY = FIT + "test_identify_agrees_with_a_search_by_hand"
_AMONG = FIT + "test_weights_among_samples_are_those_of_their_biases_alone"
_DRAWS = FIT + "test_draws_repeat_and_come_from_rows_with_weight"
_KNOWN = FIT + "test_known_values_are_met_exactly"
_WINDOWS = FIT + "test_windows_stand_for_their_matrix"
_TRUNCATED = FIT + "test_truncated_rows_are_one_sample_with_the_weights_of_their_windows"
_PARAMETERS = FIT + "test_parameters_follow_the_unit_of_their_column"
_AFFINE = ESTIMATE + "test_a_mean_follows_an_affine_map"
_SEVERAL = ESTIMATE + "test_several_means_at_once_are_those_means"
_ARITHMETIC = ESTIMATE + "test_arithmetic_of_estimates_is_that_of_their_functions"
_DOMAINS = ESTIMATE + "test_domains_are_ratios_whose_totals_add_up"
_LEVELS = ESTIMATE + "test_intervals_grow_with_their_level"
_CDF = ESTIMATE + "test_a_cdf_rises_from_0_to_1_and_its_quantile_is_the_inverse"
_BAND = ESTIMATE + "test_a_band_holds_its_function_and_grows_with_the_level"
_NORMALISERS = ESTIMATE + "test_normalisers_and_their_logs_agree"
_REPLICATES = ESTIMATE + "test_replicate_weights_follow_the_row_wherever_it_stands"
_BOOTSTRAP = ESTIMATE + "test_a_bootstrap_repeats_by_its_seed_on_any_number_of_threads"
_BOUNDS = ESTIMATE + "test_bounds_are_wider_for_a_smaller_risk"
_SENSITIVITY = ESTIMATE + "test_sensitivity_is_nested_in_its_factor_and_mirrored_by_the_sign"
_CHECK = ESTIMATE + "test_a_check_of_the_biases_knows_no_order_of_rows_and_no_unit"
_DIAGNOSTICS = ESTIMATE + "test_diagnostics_count_what_there_is"
_CONSTRUCTORS = BIAS + "test_each_constructor_means_its_formula"
_FAMILIES = BIAS + "test_each_family_at_its_parameters_means_its_formula"
_ALGEBRA = BIAS + "test_the_algebra_of_biases_is_that_of_their_values"
_ANY_TEXT = BIAS + "test_any_text_is_a_bias_or_an_error_of_ours"
_READS_BACK = BIAS + "test_any_name_text_and_number_reads_back"
_ESTIMATOR = LEARN + "test_a_debiased_estimator_is_the_estimator_with_the_weights"
_INSIDE = LEARN + "test_the_other_methods_are_those_of_the_learner_inside"
_RESAMPLER = LEARN + "test_a_resampler_repeats_and_draws_rows_of_its_own"
_MIXTURE = LEARN + "test_a_mixture_counts_a_weight_of_two_as_two_rows"
_RISK = LEARN + "test_a_debiased_risk_knows_no_scale_of_a_bias"
_SCORER = LEARN + "test_a_scorer_is_the_score_by_weights"
_INFERENCE = LEARN + "test_inference_has_the_coefficients_of_the_weighted_fit"
_TORCH = LEARN + "test_torch_draws_repeat_and_weights_have_mean_one"
_PRINTED = OUTPUT + "test_every_valid_fit_of_a_matrix_can_be_printed_and_reported"
_REPORTED = OUTPUT + "test_every_valid_fit_of_a_frame_can_be_printed_and_reported"
_DISPLAYS = OUTPUT + "test_every_display_draws_on_the_axes_it_is_given"
_DESIGNS = OUTPUT + "test_a_design_of_a_seed_is_one_design"
_TABLES = OUTPUT + "test_a_real_table_is_the_same_at_each_call"
_ERRORS = OUTPUT + "test_every_error_is_a_value_error_and_every_warning_a_user_warning"
_LEARNED = BIAS + "test_a_bias_from_which_nothing_is_learned_is_none"
_VALUES = OUTPUT + "test_results_are_values_that_cannot_be_changed"
_SAVED = "travel/test_saved_fits.py::test_a_loaded_fit_weighs_the_same"
_SQL = "engines/test_new_rows.py::test_sql_gives_the_same_in_duckdb_and_sqlite"
_FRAMES = "travel/test_frames.py::test_every_result_is_a_frame_of_the_library_of_the_fit"
_ANY_STUDY = STUDY + "test_any_text_is_a_study_or_an_error_of_ours"
_A_STUDY = STUDY + "test_the_study_that_is_mutated_is_one"

TESTS: dict[str, tuple[str, ...]] = {
    "debias": (
        _ONE_FIT,
        FIT + "test_a_factor_of_a_bias_is_a_factor_of_its_normaliser",
        FIT + "test_the_order_of_the_samples_is_free",
        FIT + "test_counts_are_copies_of_rows",
    ),
    "debias_matrix": (
        _ONE_FIT,
        INVARIANCE + "test_rescaling_a_bias_moves_its_normaliser_only",
        INVARIANCE + "test_permuting_rows_permutes_weights",
        INVARIANCE + "test_permuting_samples_permutes_normalisers",
        INVARIANCE + "test_splitting_a_sample_in_two_with_the_same_bias",
        INVARIANCE + "test_counts_are_copies",
        INVARIANCE + "test_an_unsampled_state_moves_nothing_and_gets_its_normaliser",
        INVARIANCE + "test_dense_log_sparse_and_sparse_log_agree",
    ),
    "identify": (_IDENTIFY,),
    **dict.fromkeys([f"Windows{name}" for name in ("", ".shape", ".ndim", ".dtype", ".toarray")], (_WINDOWS,)),
    "debiased_risk": (_RISK,),
    "debiased_scorer": (_SCORER,),
    "biases": (_CONSTRUCTORS,),
    "datasets": (_DESIGNS,),
    "errors": (_ERRORS,),
    "learn": (_ESTIMATOR,),
    "plots": (_DISPLAYS,),
    **dict.fromkeys(["everywhere", "proportional_to", "between", "isin", "at_most", "class_shift"], (_CONSTRUCTORS,)),
    **dict.fromkeys(["logistic", "exponential_tilt", "power", "steps", "parametric"], (_FAMILIES,)),
    "cells": (BIAS + "test_cells_at_their_parameters_are_a_factor_for_each_value",),
    **dict.fromkeys(["window", "biases.WindowBias"], (_TRUNCATED,)),
    **dict.fromkeys(["learned", "biases.LearnedBias", "DebiasedSample.learned"], (_LEARNED,)),
    "Estimate.is_approximate": (_LEARNED,),
    **dict.fromkeys(["LearnedCheck", "LearnedCheck.said_of_clipping", "LearnedCheck.off"], (_LEARNED,)),
    **dict.fromkeys(["BiasCheck.note", "Bootstrap.is_approximate"], (_LEARNED,)),
    "where": (_ANY_TEXT, _READS_BACK, "unit/test_expressions.py::test_round_trip"),
    "biases.as_bias": (_ALGEBRA,),
    "biases.FrameExpressionBias": (EXPRESSIONS + "test_values", EXPRESSIONS + "test_missing_values_are_never_false"),
    **dict.fromkeys(["biases.ExpressionBias", "biases.ProductBias", "biases.ValuesBias"], (_ALGEBRA, _READS_BACK)),
    **dict.fromkeys(["biases.FunctionBias", "biases.FunctionFamily", "biases.ParametricBias"], (_FAMILIES, _ALGEBRA)),
    **dict.fromkeys(["Bias", "Bias.columns"], (_ALGEBRA, _READS_BACK)),
    # a fit
    "DebiasedSample": (_WEIGHTS, _PRINTED, _REPORTED),
    **dict.fromkeys(
        [f"DebiasedSample.{name}" for name in ("weights", "probabilities", "sizes", "weight_shares", "effective_rows")],
        (_WEIGHTS, _EQUATIONS),
    ),
    **dict.fromkeys([f"DebiasedSample.{name}" for name in ("numeric_columns", "trust", "bridge")], (_WEIGHTS,)),
    **dict.fromkeys(
        [f"DebiasedSample.{name}" for name in ("omegas", "log_omegas", "paper_normalisers")], (_EQUATIONS,)
    ),
    "DebiasedSample.known": (_KNOWN,),
    "DebiasedSample.parameters": (_PARAMETERS,),
    "DebiasedSample.update": (
        "estimates/test_update.py::test_update_is_the_fit_of_all_rows",
        "estimates/test_update.py::test_a_new_sample_is_the_fit_of_all_samples",
    ),
    "DebiasedSample.place_of": (
        "estimates/test_log_ratio.py::test_ratios_turned_around_change_sign_and_scales_only_move_them",
    ),
    "DebiasedSample.log_ratio": (
        "estimates/test_log_ratio.py::test_ratios_turned_around_change_sign_and_scales_only_move_them",
    ),
    "plots.ConvergenceDisplay": ("accounts/test_plots.py::test_convergence_is_drawn_in_both_directions",),
    "plots.ProfileDisplay": (UMBRELLA + "test_a_picture_has_the_unit_and_the_names_of_coordinates",),
    "plots.StatesDisplay": ("accounts/test_plots.py::test_steps_between_states",),
    **dict.fromkeys(
        [f"{kind}.{name}" for kind in ("DebiasedSample", "Weigher") for name in ("expression", "uncovered")],
        ("engines/test_new_rows.py::test_a_row_without_a_weight_is_null_in_an_engine_and_counted",),
    ),
    **dict.fromkeys(["DebiasedSample.to_sql", "Weigher.to_sql"], (_SQL,)),
    **dict.fromkeys(
        ["load", "DebiasedSample.save", "DebiasedSample.weigher", "Weigher", "Weigher.save", "Weigher.summary"],
        (_SAVED,),
    ),
    **dict.fromkeys(
        [f"Weigher.{name}" for name in ("weigh", "adding", "expression_on", "fixed", "of", "sampled", "errors", "log")],
        (_SAVED, "engines/test_new_rows.py::test_new_rows_weigh_the_same_in_every_engine"),
    ),
    **dict.fromkeys(
        [f"Weigher.{name}" for name in ("normalisers", "log_normalisers", "log_omega_covariance")],
        ("travel/test_saved_fits.py::test_a_loaded_fit_has_its_normalisers_with_errors",),
    ),
    **dict.fromkeys(
        [
            f"{kind}.to_frame"
            for kind in ("BiasCheck", "Bootstrap", "Domains", "Estimates", "KnownCheck", "Sensitivity")
        ],
        (_FRAMES,),
    ),
    "Estimates.names": (_FRAMES,),
    "DebiasedSample.weigh": (FIT + "test_weigh_gives_the_rows_of_the_pool_their_weights",),
    **dict.fromkeys(["DebiasedSample.among", "Estimate.among", "Estimate.plain", "Estimates.among"], (_AMONG,)),
    "DebiasedSample.sample": (_DRAWS,),
    "DebiasedSample.identify": (_IDENTIFY,),
    "DebiasedSample.expectation": (_AFFINE, _ARITHMETIC),
    "DebiasedSample.expectations": (_SEVERAL,),
    **dict.fromkeys(["DebiasedSample.total", "DebiasedSample.proportions"], (_DOMAINS,)),
    "DebiasedSample.cdf": (_CDF, _DOMAINS),
    **dict.fromkeys(
        [f"DebiasedSample.{name}" for name in ("normalisers", "log_normalisers", "log_omega_covariance")],
        (_NORMALISERS,),
    ),
    "DebiasedSample.bootstrap": (_BOOTSTRAP,),
    "DebiasedSample.replicate_weights": (_REPLICATES,),
    "DebiasedSample.bounds": (_BOUNDS, ESTIMATE + "test_bounds_refuse_what_is_no_probability"),
    "DebiasedSample.sensitivity": (_SENSITIVITY,),
    "DebiasedSample.check_biases": (_CHECK,),
    "DebiasedSample.diagnostics": (_DIAGNOSTICS,),
    "DebiasedSample.summary": (_PRINTED,),
    **dict.fromkeys(["DebiasedSample.parts", "DebiasedSample.report"], (_REPORTED,)),
    **dict.fromkeys(["DebiasedSample.torch_sampler", "DebiasedSample.torch_weights"], (_TORCH,)),
    **dict.fromkeys(
        [f"DebiasedSample.{name}" for name in ("estimated_biases", "test_no_bias", "test_parameters")], (_PARAMETERS,)
    ),
    "LikelihoodRatio": (_PARAMETERS,),
    # results
    **dict.fromkeys(["Solution", "Solution.point", "Solution.weights"], (_EQUATIONS, _VALUES)),
    **dict.fromkeys(["Verdict", "Verdict.link", "Verdict.links", "Verdict.require", "Verdict.error"], (_IDENTIFY,)),
    **dict.fromkeys(
        [
            "KnownCheck",
            *(f"KnownCheck.{name}" for name in ("contradicted", "freedom", "outcome", "summary", "verdict")),
        ],
        (_KNOWN,),
    ),
    "Estimate": (_ARITHMETIC, _LEVELS),
    **dict.fromkeys(["Estimate.df", "Estimate.law"], (_AFFINE,)),
    **dict.fromkeys([f"Estimate.{name}" for name in ("at", "z", "interval", "level")], (_LEVELS,)),
    **dict.fromkeys(
        [f"Estimate.{name}" for name in ("log", "exp", "from_influence", "influence", "over_positive")], (_ARITHMETIC,)
    ),
    **dict.fromkeys(
        [
            "Estimates",
            *(f"Estimates.{name}" for name in ("stderr", "errors", "df", "laws", "interval", "influence", "level")),
        ],
        (_SEVERAL,),
    ),
    **dict.fromkeys(
        ["Domains", *(f"Domains.{name}" for name in ("get", "items", "joint", "keys", "summary", "table", "values"))],
        (_DOMAINS,),
    ),
    **dict.fromkeys(["DebiasedCdf", *(f"DebiasedCdf.{name}" for name in ("quantile", "x", "heights"))], (_CDF,)),
    **dict.fromkeys(["Band", "Band.drawn", "DebiasedCdf.band"], (_BAND,)),
    **dict.fromkeys(
        ["Bootstrap", "Bootstrap.stderr", "Bootstrap.interval", "Bootstrap.laws", "Bootstrap.percentile"], (_BOOTSTRAP,)
    ),
    **dict.fromkeys(["Bounds", "Bounds.U", "Bounds.rho", "Bounds.summary"], (_BOUNDS,)),
    **dict.fromkeys(
        ["Sensitivity", *(f"Sensitivity.{name}" for name in ("interval", "note", "sharp", "summary", "tipping_point"))],
        (_SENSITIVITY,),
    ),
    **dict.fromkeys(
        ["BiasCheck", *(f"BiasCheck.{name}" for name in ("outcome", "reason", "summary", "worst_first"))], (_CHECK,)
    ),
    **dict.fromkeys(
        ["Diagnostics", "Diagnostics.summary", "Diagnostics.to_frame", "Diagnostics.warnings"], (_DIAGNOSTICS,)
    ),
    # learners
    "DebiasedEstimator": (_ESTIMATOR,),
    **dict.fromkeys(
        [
            f"DebiasedEstimator.{name}"
            for name in (
                "biases",
                "clusters",
                "fit",
                "get_params",
                "known",
                "predict",
                "random_state",
                "resample",
                "score",
                "series",
                "set_fit_request",
                "set_params",
                "target",
            )
        ],
        (_ESTIMATOR,),
    ),
    **dict.fromkeys(
        [
            f"DebiasedEstimator.{name}"
            for name in (
                "decision_function",
                "fit_predict",
                "fit_transform",
                "get_metadata_routing",
                "inverse_transform",
                "predict_log_proba",
                "predict_proba",
                "score_samples",
                "set_output",
                "transform",
            )
        ],
        (_INSIDE,),
    ),
    **dict.fromkeys(
        [
            "DebiasedResampler",
            *(
                f"DebiasedResampler.{name}"
                for name in (
                    "biases",
                    "fit",
                    "fit_resample",
                    "get_metadata_routing",
                    "get_params",
                    "known",
                    "method",
                    "random_state",
                    "replace",
                    "set_fit_request",
                    "set_params",
                    "size",
                    "target",
                )
            ),
        ],
        (_RESAMPLER,),
    ),
    **dict.fromkeys(
        [
            "GaussianMixture",
            *(
                f"GaussianMixture.{name}"
                for name in (
                    "aic",
                    "bic",
                    "fit",
                    "fit_predict",
                    "get_metadata_routing",
                    "get_params",
                    "predict",
                    "predict_proba",
                    "sample",
                    "score",
                    "score_samples",
                    "set_fit_request",
                    "set_params",
                    "set_score_request",
                )
            ),
        ],
        (_MIXTURE,),
    ),
    "learn.DebiasedScorer": (_SCORER,),
    **dict.fromkeys(["learn.inference", "learn.ModelInference"], (_INFERENCE,)),
    **dict.fromkeys(
        ["learn.check_weight_use", "learn.WeightUse"], (LEARN + "test_use_of_weights_is_seen_at_any_seed",)
    ),
    "learn.coefficient_sensitivity": (LEARN + "test_the_sensitivity_of_a_coefficient_is_nested",),
    # free energies
    **dict.fromkeys(
        ["mbar", "mbar.MBAR"],
        (
            MBAR + "test_constants_of_rows_and_states_and_their_order_move_what_they_must",
            MBAR + "test_a_state_in_two_is_one_state",
        ),
    ),
    "mbar.FES": (MBAR + "test_a_surface_moves_with_its_coordinate_and_knows_no_constant",),
    "mbar.AlchemicalEstimator": (MBAR + "test_a_frame_of_alchemical_states_knows_no_order_of_rows",),
    **dict.fromkeys(
        ["mbar.statistical_inefficiency", "mbar.equilibration", "mbar.Equilibration"],
        (MBAR + "test_time_knows_no_unit_and_no_other_simulation",),
    ),
    **dict.fromkeys(
        ["mbar.convergence", "mbar.Convergence", "mbar.inefficiencies"],
        (MBAR + "test_backward_is_forward_in_time_that_runs_back",),
    ),
    **dict.fromkeys(
        ["mbar.bar", "mbar.exp"],
        (MBAR + "test_works_know_no_zero_of_energy_and_change_sign_with_the_direction",),
    ),
    "mbar.ParameterError": ("physics/test_names_of_pymbar.py::test_what_is_refused_is_an_error_of_both",),
    **dict.fromkeys(
        ["mbar.Umbrella", "mbar.Profile"],
        (
            UMBRELLA + "test_windows_in_grossfields_format_give_the_known_profile",
            UMBRELLA + "test_two_coordinates_give_a_surface",
        ),
    ),
    "mbar.kT": (MBAR + "test_units_are_in_proportion",),
    # data sets, displays, reports, studies
    **dict.fromkeys(
        [
            f"datasets.{name}"
            for name in (
                "Design",
                "MatrixDesign",
                "exponential_tilts",
                "gaussian_scenario",
                "harmonic_oscillators",
                "house_prices",
                "length_bias",
                "multivariate_length_bias",
                "strata",
                "tilts",
                "truncation",
                "two_gaussians",
            )
        ],
        (_DESIGNS,),
    ),
    **dict.fromkeys(["datasets.boston", "datasets.adult"], (_TABLES,)),
    **dict.fromkeys(
        [f"plots.{name}Display" for name in ("Cdf", "Love", "Overlap", "Sensitivity", "Weights")], (_DISPLAYS,)
    ),
    **dict.fromkeys(["report.Report", "report.compute", "report.to_html"], (_PRINTED, _REPORTED)),
    **dict.fromkeys(["study.read", "study.parse"], (_ANY_STUDY, _A_STUDY)),
    **dict.fromkeys(["study.Study", "study.OpenStudy", "study.Data"], (_A_STUDY,)),
    **dict.fromkeys(
        ["study.plan", "study.Plan", "study.Query"], ("command_line/test_plan.py::test_a_fit_asks_what_was_planned",)
    ),
}
