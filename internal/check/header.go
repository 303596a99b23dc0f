package check

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/schedule"
)

// header checks the header of a file: everything before its first step.
func (c *checker) header() {
	c.version()
	for i := range c.p.Triggers {
		c.trigger(&c.p.Triggers[i])
	}
	if c.p.Input != nil {
		c.schema(c.p.Input, c.domains.input, "the input")
	}
	if c.p.Output != nil {
		c.schema(c.p.Output, c.domains.output, "the output")
	}
	for i := range c.p.Vars {
		v := &c.p.Vars[i]
		c.schema(&ir.Contract{Schema: v.Schema, Span: v.Span}, decoded(v.Schema), fmt.Sprintf("%q", v.Path))
	}
	for i := range c.p.ToolDefs {
		t := &c.p.ToolDefs[i]
		c.schema(&ir.Contract{Schema: t.Schema, Span: t.Span}, decoded(t.Schema), fmt.Sprintf("the tool %q", t.Name))
	}
}

// version warns about a version that is not of the form X.Y.Z, and suggests one.
func (c *checker) version() {
	if c.p.Version == "" || ir.ValidVersion(c.p.Version) {
		return
	}
	numbers := versionNumbers(c.p.Version)
	at := c.p.Span
	for i := range c.p.Meta {
		if c.p.Meta[i].Name == "version" {
			at = c.p.Meta[i].Span
		}
	}
	help, better := "Write three numbers with dots, such as \"1.0.0\".", ""
	if numbers != nil {
		better = strings.Join(append(numbers, "0", "0")[:3], ".")
		help = fmt.Sprintf("Write %q.", better)
	}
	c.add(CodeVersion, diag.Warning, at, help, "The version %q is not of the form X.Y.Z.", c.p.Version).
		Replace(c.p.Version, better)
}

// versionNumbers returns the one to three numbers at the start of a version, which may have a "v" before or a suffix
// after them; nil if there are none.
func versionNumbers(version string) []string {
	version = strings.TrimPrefix(version, "v")
	if suffix := strings.IndexAny(version, "-+"); suffix >= 0 {
		version = version[:suffix]
	}
	numbers := strings.Split(version, ".")
	if len(numbers) > 3 {
		return nil
	}
	for i, n := range numbers {
		if n == "" || strings.Trim(n, "0123456789") != "" {
			return nil
		}
		numbers[i] = cmp.Or(strings.TrimLeft(n, "0"), "0")
	}
	return numbers
}

// trigger checks a schedule and its time zone.
func (c *checker) trigger(t *ir.Trigger) {
	zone := time.UTC
	if t.Timezone != "" {
		loaded, err := time.LoadLocation(t.Timezone)
		if err != nil || t.Timezone == "Local" {
			c.add(CodeTimezone, diag.Error, cmp.Or(t.TimezoneSpan, t.Span),
				"Write a name of the IANA list, such as \"Europe/Berlin\" or \"UTC\".",
				"There is no time zone %q.", t.Timezone).SuggestNear(t.Timezone, commonZones)
		} else {
			zone = loaded
		}
	}
	if t.Kind != ir.OnSchedule {
		return
	}
	times, err := schedule.Parse(t.Schedule, zone)
	if err != nil {
		c.add(CodeSchedule, diag.Error, t.Span,
			"Write five fields (minute, hour, day of month, month, day of week), such as \"0 6 * * 1-5\". An "+
				"optional sixth field before them sets the seconds.", "The schedule %q is invalid: %s.", t.Schedule,
			strings.TrimSuffix(err.Error(), "."))
		return
	}
	if times.Next(epoch).IsZero() {
		c.add(CodeSchedule, diag.Error, t.Span, "Choose a day that the month has.",
			"The schedule %q never fires: there is no such day.", t.Schedule)
	}
}

// epoch is the start of the search for the first time of a schedule. A fixed day makes the result reproducible.
var epoch = time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC)

// commonZones are candidates for a misspelled time zone. Package time does not provide a list of all zones.
var commonZones = []string{
	"UTC", "Africa/Cairo", "Africa/Johannesburg", "Africa/Lagos", "Africa/Nairobi",
	"America/Argentina/Buenos_Aires", "America/Bogota", "America/Chicago", "America/Denver", "America/Halifax",
	"America/Lima", "America/Los_Angeles", "America/Mexico_City", "America/New_York", "America/Phoenix",
	"America/Santiago", "America/Sao_Paulo", "America/Toronto", "America/Vancouver",
	"Asia/Bangkok", "Asia/Dhaka", "Asia/Dubai", "Asia/Hong_Kong", "Asia/Jakarta", "Asia/Jerusalem", "Asia/Karachi",
	"Asia/Kolkata", "Asia/Manila", "Asia/Riyadh", "Asia/Seoul", "Asia/Shanghai", "Asia/Singapore", "Asia/Tehran",
	"Asia/Tokyo",
	"Australia/Brisbane", "Australia/Melbourne", "Australia/Perth", "Australia/Sydney", "Pacific/Auckland",
	"Europe/Amsterdam", "Europe/Athens", "Europe/Berlin", "Europe/Brussels", "Europe/Copenhagen", "Europe/Dublin",
	"Europe/Helsinki", "Europe/Istanbul", "Europe/Kyiv", "Europe/Lisbon", "Europe/London", "Europe/Madrid",
	"Europe/Moscow", "Europe/Oslo", "Europe/Paris", "Europe/Prague", "Europe/Rome", "Europe/Stockholm",
	"Europe/Vienna", "Europe/Warsaw", "Europe/Zurich",
}
