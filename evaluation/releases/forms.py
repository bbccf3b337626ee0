"""Forms of the pages on results."""

from django import forms


class NamedResultForm(forms.Form):
    """A model of a run, by the run's number and the model's name."""

    run = forms.IntegerField(min_value=1, widget=forms.HiddenInput)
    model = forms.CharField(max_length=200, widget=forms.HiddenInput)


class IncompleteForm(NamedResultForm):
    """Incomplete results to publish: the model of a run, and the coverage that the page showed."""

    settled = forms.IntegerField(min_value=0, widget=forms.HiddenInput)
    criteria = forms.IntegerField(min_value=0, widget=forms.HiddenInput)
