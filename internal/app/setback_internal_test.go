package app

import (
	"testing"

	"github.com/espalier-run/espalier/internal/journal"
)

// Records that another process writes while they are compared with the journal are not lost.
func TestRecordsThatAnotherProcessWritesAreNotLost(t *testing.T) {
	for name, c := range map[string]struct {
		entries []journal.Entry // what the journal has, one after the other
		records int             // how many events the audit log records
		want    int
	}{
		"set back":            {[]journal.Entry{{Seq: 3}}, 9, 6},
		"owner died":          {[]journal.Entry{{Seq: 3, Owner: "dead"}}, 9, 6},
		"nothing lost":        {[]journal.Entry{{Seq: 9}}, 9, 0},
		"driven":              {[]journal.Entry{{Seq: 3, Owner: "alive"}}, 9, 0},
		"claimed meanwhile":   {[]journal.Entry{{Seq: 3}, {Seq: 5, Owner: "alive"}}, 9, 0},
		"finished meanwhile":  {[]journal.Entry{{Seq: 3}, {Seq: 9}}, 9, 0},
		"set back, then grew": {[]journal.Entry{{Seq: 3}, {Seq: 4}}, 9, 5},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := lostRecords(
				func(o journal.Owner) bool { return o == "alive" },
				func() (journal.Entry, error) {
					e := c.entries[0]
					if len(c.entries) > 1 {
						c.entries = c.entries[1:]
					}
					return e, nil
				},
				func(last journal.Seq) (int, error) { return c.records - int(last), nil })
			if err != nil || got != c.want {
				t.Errorf("%d records are lost (%v), want %d", got, err, c.want)
			}
		})
	}
}
