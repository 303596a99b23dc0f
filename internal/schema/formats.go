package schema

import (
	"net/mail"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// hasFormat tells whether a text is of a format. Formats that are not known
// here are only notes for people.
func hasFormat(s, format string) bool {
	switch format {
	case "date":
		return isDate(s)
	case "time":
		return isTime(s)
	case "date-time":
		return len(s) > 10 && (s[10] == 'T' || s[10] == 't') && isDate(s[:10]) && isTime(s[11:])
	case "duration":
		return isDuration(s)
	case "email":
		a, err := mail.ParseAddress(s)
		return err == nil && a.Address == s
	case "hostname":
		return isHostname(s)
	case "ipv4":
		a, err := netip.ParseAddr(s)
		return err == nil && a.Is4()
	case "ipv6":
		a, err := netip.ParseAddr(s)
		return err == nil && a.Is6() && a.Zone() == ""
	case "uri":
		u, err := url.Parse(s)
		return err == nil && u.IsAbs() && isLink(s)
	case "uri-reference":
		_, err := url.Parse(s)
		return err == nil && isLink(s)
	case "uuid":
		return isUUID(s)
	case "regex":
		_, err := regexp.Compile(s)
		return err == nil
	}
	return true
}

// isLink is about characters that url.Parse lets through.
func isLink(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("\\\"<>^`{|}", r) })
}

func isDate(s string) bool {
	_, err := time.Parse(time.DateOnly, s)
	return err == nil
}

// isTime is stricter than the time package, which also takes hours of one
// digit and fractions after a comma.
func isTime(s string) bool {
	if len(s) < len("15:04:05Z") || s[2] != ':' || s[8] == ',' {
		return false
	}
	_, err := time.Parse("15:04:05Z07:00", strings.ToUpper(s))
	return err == nil
}

// isDuration reads P1Y2M3DT4H5M6S, of which parts may be missing, or P2W.
func isDuration(s string) bool {
	s, ok := strings.CutPrefix(s, "P")
	if !ok {
		return false
	}
	if weeks, ok := strings.CutSuffix(s, "W"); ok {
		return isDigits(weeks)
	}
	days, clock, timed := strings.Cut(s, "T")
	return (days != "" || timed) && areParts(days, "YMD") && (!timed || clock != "" && areParts(clock, "HMS"))
}

// areParts tells whether s is numbers, each with one of the units behind it,
// in their order.
func areParts(s, units string) bool {
	for s != "" {
		end := strings.IndexAny(s, units)
		if end < 0 || !isDigits(s[:end]) {
			return false
		}
		units = units[strings.IndexByte(units, s[end])+1:]
		s = s[end+1:]
	}
	return true
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func isHostname(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' ||
			strings.ContainsFunc(label, func(r rune) bool {
				return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-'
			}) {
			return false
		}
	}
	return true
}

func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash != (s[i] == '-') || !dash && strings.IndexByte("0123456789abcdefABCDEF", s[i]) < 0 {
			return false
		}
	}
	return true
}
