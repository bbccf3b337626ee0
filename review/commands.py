"""The commands of review, each with its action."""

COMMANDS = {
    "add_person": "review.people.actions.AddPerson",
    "changepassword": "review.people.actions.ChangePassword",
    "demo_reviews": "review.management.demo_reviews.DemoReviews",
    "export_cases": "review.assignments.actions.ExportCases",
    "import_annotations": "review.assignments.actions.ImportAnnotations",
    "import_people": "review.people.actions.ImportPeople",
    "set_case": "review.cases.actions.SetCase",
    "take_second_factor": "review.people.actions.TakeSecondFactor",
}
