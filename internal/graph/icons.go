package graph

import (
	"math"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/xslices"
)

// icons are paths on a grid of 16 by 16. Besides the commands M, L, C and Z of SVG, O x y r draws a circle, and
// A x y r from to an arc between two angles in degrees, clockwise. F fills the shape.
var icons = map[Icon]string{
	IconClock:    "O 8 8 6.3 M 8 4.4 L 8 8.2 L 10.6 9.8",
	IconBolt:     "F M 9.4 1.4 L 3.4 9.2 L 7.3 9.2 L 6.5 14.6 L 12.6 6.6 L 8.7 6.6 Z",
	IconCode:     "M 5.4 3.6 L 1.6 8 L 5.4 12.4 M 10.6 3.6 L 14.4 8 L 10.6 12.4",
	IconPlay:     "F M 4.6 2.8 L 13 8 L 4.6 13.2 Z",
	IconPerson:   "O 8 5 2.9 M 2.6 14 C 2.6 10.8 5 9.7 8 9.7 C 11 9.7 13.4 10.8 13.4 14",
	IconCheck:    "O 8 8 6.3 M 5 8.3 L 7.2 10.4 L 11 6",
	IconSplit:    "M 8 1.6 L 8 5 M 8 5 C 8 9.5 3.2 7.5 3.2 13.8 M 8 5 C 8 9.5 12.8 7.5 12.8 13.8",
	IconParallel: "M 3.4 2.6 L 3.4 13.4 M 8 2.6 L 8 13.4 M 12.6 2.6 L 12.6 13.4",
	IconRepeat:   "A 8 8 5.6 -20 250 M 2.6 1.6 L 5.9 2.7 L 4.7 6",
	IconNested:   "M 2 2 L 14 2 L 14 14 L 2 14 Z M 5.4 5.4 L 10.6 5.4 L 10.6 10.6 L 5.4 10.6 Z",
	IconSpark: "F M 8 1 C 8.5 5.5 10.5 7.5 15 8 C 10.5 8.5 8.5 10.5 8 15 C 7.5 10.5 5.5 8.5 1 8 " +
		"C 5.5 7.5 7.5 5.5 8 1",
	IconGear: "O 8 8 3.9 M 12 8 L 14.6 8 " +
		"M 10.82842712474619 10.82842712474619 L 12.666904755831213 12.666904755831213 " +
		"M 8 12 L 8 14.6 M 5.17157287525381 10.82842712474619 L 3.3330952441687867 12.666904755831213 M 4 8 L 1.4 8 " +
		"M 5.17157287525381 5.17157287525381 L 3.3330952441687867 3.3330952441687867 M 8 4 L 8 1.4 " +
		"M 10.82842712474619 5.17157287525381 L 12.666904755831213 3.3330952441687867",
	IconWrench: "M 2.4 13.6 L 8.2 7.8 A 10.6 5.4 3.4 -10 280",
	IconFile:   "M 3.6 1.8 L 9.4 1.8 L 12.6 5 L 12.6 14.2 L 3.6 14.2 Z M 9.4 1.8 L 9.4 5 L 12.6 5",
	IconCross:  "M 3.8 3.8 L 12.2 12.2 M 12.2 3.8 L 3.8 12.2",
	IconLeave:  "M 2.4 8 L 13 8 M 9 4 L 13 8 L 9 12",
	IconStop:   "F M 4.4 4.4 L 11.6 4.4 L 11.6 11.6 L 4.4 11.6 Z",
}

// iconShape draws an icon in a square. It does not check the icon's path, which is a constant.
func iconShape(icon Icon, x, y, side float64, p paint) shape {
	d := &pen{x: x, y: y, scale: side / 16}
	s := shape{stroke: p, width: max(1.1, side/16*1.5)}
	for words := strings.Fields(icons[icon]); len(words) > 0; {
		op := words[0]
		n := map[string]int{"M": 2, "L": 2, "C": 6, "O": 3, "A": 5}[op]
		v := xslices.Map(words[1:n+1], func(word string) float64 {
			f, _ := strconv.ParseFloat(word, 64)
			return f
		})
		words = words[n+1:]
		switch op {
		case "M":
			d.path.move(d.at(v[0], v[1]))
		case "L":
			d.path.line(d.at(v[0], v[1]))
		case "C":
			d.cubic(v[0], v[1], v[2], v[3], v[4], v[5])
		case "Z":
			d.path.closePath()
		case "O":
			d.arc(v[0], v[1], v[2], 0, 360)
			d.path.closePath()
		case "A":
			d.arc(v[0], v[1], v[2], v[3], v[4])
		case "F":
			s.fill, s.width = p, 0.8
		}
	}
	s.path = d.path
	return s
}

// pen draws on the grid of an icon.
type pen struct {
	path  path
	x, y  float64
	scale float64
}

func (d *pen) at(x, y float64) (float64, float64) { return d.x + x*d.scale, d.y + y*d.scale }

func (d *pen) cubic(x1, y1, x2, y2, x, y float64) {
	x1, y1 = d.at(x1, y1)
	x2, y2 = d.at(x2, y2)
	x, y = d.at(x, y)
	d.path.cubic(x1, y1, x2, y2, x, y)
}

// arc draws an arc between two angles in degrees, clockwise, as four cubic curves.
func (d *pen) arc(x, y, r, from, to float64) {
	const steps = 4
	turn := (to - from) / steps * math.Pi / 180
	k := 4.0 / 3 * math.Tan(turn/4) * r
	a := from * math.Pi / 180
	sin, cos := math.Sincos(a)
	d.path.move(d.at(x+r*cos, y+r*sin))
	for range steps {
		b := a + turn
		sinB, cosB := math.Sincos(b)
		sin, cos = math.Sincos(a)
		d.cubic(x+r*cos-k*sin, y+r*sin+k*cos, x+r*cosB+k*sinB, y+r*sinB-k*cosB, x+r*cosB, y+r*sinB)
		a = b
	}
}
