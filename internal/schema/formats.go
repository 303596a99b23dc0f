package schema

import (
	"net/mail"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// hasFormat reports whether s has a format. Unknown formats accept every string, as the specification requires.
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
		return err == nil && u.IsAbs() && hasURIChars(s)
	case "uri-reference":
		_, err := url.Parse(s)
		return err == nil && hasURIChars(s)
	case "uuid":
		return isUUID(s)
	case "regex":
		_, err := regexp.Compile(s)
		return err == nil
	}
	return true
}

// hasURIChars reports whether s has only characters allowed in a URI. url.Parse accepts more.
func hasURIChars(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune("\\\"<>^`{|}", r)
	})
}

func isDate(s string) bool {
	_, err := time.Parse(time.DateOnly, s)
	return err == nil
}

// isTime reports whether s is a time of RFC 3339. time.Parse also accepts one-digit hours and fractions after a comma.
func isTime(s string) bool {
	if len(s) < len("15:04:05Z") || s[2] != ':' || s[8] == ',' {
		return false
	}
	_, err := time.Parse("15:04:05Z07:00", strings.ToUpper(s))
	return err == nil
}

// isDuration reports whether s is a duration of RFC 3339, appendix A, such as P1Y2M3DT4H5M6S, any parts of it, or P2W.
func isDuration(s string) bool {
	s, ok := strings.CutPrefix(s, "P")
	if !ok {
		return false
	}
	if weeks, ok := strings.CutSuffix(s, "W"); ok {
		return isDigits(weeks)
	}
	days, clock, timed := strings.Cut(s, "T")
	if timed && clock == "" || !timed && days == "" {
		return false
	}
	return isDurationParts(days, "YMD") && isDurationParts(clock, "HMS")
}

// isDurationParts reports whether s is a sequence of numbers, each followed by a unit, with the units in the given
// order.
func isDurationParts(s, units string) bool {
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

// isDigits reports whether a text consists of the digits 0 to 9.
func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// isHostname reports whether a text is a host name in ASCII. The limits are those of DNS.
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

// isUUID reports whether a text has the form of a UUID, of any version.
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
