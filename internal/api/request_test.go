package api_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Tags are literals, which no constant can be part of.
func TestAnswersOfTheAPIAreThoseOfTheJournal(t *testing.T) {
	for _, test := range []struct {
		body    any
		field   string
		answers []journal.Answer
	}{
		{api.ResolveBody{}, "Answer", journal.OutcomeAnswers},
		{api.DecideBody{}, "Decision", []journal.Answer{journal.AnswerApprove, journal.AnswerReject}},
	} {
		field, _ := reflect.TypeOf(test.body).FieldByName(test.field)
		want := strings.Join(xslices.Map(test.answers, func(a journal.Answer) string { return string(a) }), ",")
		if got := field.Tag.Get("enum"); got != want {
			t.Errorf("%T: %q, want %q", test.body, got, want)
		}
	}
}
