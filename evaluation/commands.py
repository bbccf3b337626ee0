"""The commands of evaluation, each with its action."""

COMMANDS = {
    "add_model": "evaluation.runs.actions.AddModel",
    "claims": "evaluation.claims.actions.MeasureClaims",
    "compare": "evaluation.interchange.actions.CompareRuns",
    "evaluate": "evaluation.runs.actions.Evaluate",
    "export_run": "evaluation.interchange.actions.ExportRun",
    "import_results": "evaluation.interchange.actions.ImportResults",
    "leave_out": "evaluation.runs.actions.LeaveOut",
    "playground": "evaluation.playground.actions.TryPrompt",
    "power": "evaluation.interchange.actions.ExpectPower",
    "publish_results": "evaluation.releases.actions.PublishResults",
    "report": "evaluation.reports.actions.PrintReport",
    "rerun": "evaluation.interchange.actions.Rerun",
    "validate_judge": "evaluation.judges.actions.ValidateJudge",
    "verify_run": "evaluation.interchange.actions.VerifyRun",
}
