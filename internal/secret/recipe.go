package secret

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// A recipe says how the characters of a text are encoded where it was found, so
// that Reveal returns what was there, byte for byte. It is a list of units (see
// literal), each with a count if it is repeated: "4.U10." is four characters as
// they are, one as %2F, and ten as they are. It shows which characters are
// encoded, but nothing else about them.

// recipe returns the recipe that turns a text into what was found, or "" if
// there is none.
func recipe(text, found string, units []string) string {
	var b strings.Builder
	for i := 0; i < len(units); {
		n := 1
		for i+n < len(units) && units[i+n] == units[i] {
			n++
		}
		if n > 1 {
			b.WriteString(strconv.Itoa(n))
		}
		b.WriteString(units[i])
		i += n
	}
	if again, ok := cook(text, b.String()); !ok || again != found {
		return ""
	}
	return b.String()
}

// cook encodes a text by a recipe. It reports false if the recipe is not one for
// this text.
func cook(text, recipe string) (string, bool) {
	c := cookery{text: text, recipe: recipe}
	for c.recipe != "" {
		digits := len(c.recipe) - len(strings.TrimLeft(c.recipe, "0123456789"))
		n := 1
		if digits > 0 {
			var err error
			if n, err = strconv.Atoi(c.recipe[:digits]); err != nil {
				return "", false
			}
		}
		c.recipe = c.recipe[digits:]
		unit := c.recipe
		for range n {
			c.recipe = unit
			if !c.unit() {
				return "", false
			}
		}
	}
	return c.out.String(), c.text == ""
}

type cookery struct {
	text, recipe string // the parts that have not been processed
	out          strings.Builder
}

// next removes the first byte of the recipe.
func (c *cookery) next() string {
	if c.recipe == "" {
		return ""
	}
	first := c.recipe[:1]
	c.recipe = c.recipe[1:]
	return first
}

// unit encodes one character by one unit.
func (c *cookery) unit() bool {
	unit := c.next()
	if unit == skip {
		name := c.next()
		for skipped, is := range skippable {
			if is == name {
				inner := cookery{text: skipped, recipe: c.recipe}
				ok := inner.unit()
				c.recipe = inner.recipe
				c.out.WriteString(inner.out.String())
				return ok
			}
		}
		return false
	}
	if c.text == "" {
		return false
	}
	if unit == literal || unit == upper {
		one := c.text[:1]
		c.text = c.text[1:]
		if unit == upper {
			one = strings.ToUpper(one)
		}
		c.out.WriteString(one)
		return true
	}
	again := unit == nested
	if again {
		unit = c.next()
	}
	encode, size := encoders[unit], 1
	if encode == nil {
		return false
	}
	if strings.Contains("uVwdzhH", unit) { // these encode runes, the others bytes
		_, size = utf8.DecodeRuneInString(c.text)
	}
	escape := encode(c.text[:size])
	c.text = c.text[size:]
	if !again {
		c.out.WriteString(escape)
		return escape != ""
	}
	inner := cookery{text: escape, recipe: c.recipe}
	for inner.text != "" {
		if !inner.unit() {
			return false
		}
	}
	c.recipe = inner.recipe
	c.out.WriteString(inner.out.String())
	return escape != ""
}
