package graph

import "math"

// iconShapes draws an icon in a square. Icons are defined on a grid of 16 by 16.
func iconShapes(icon Icon, x, y, side float64, p paint) []shape {
	d := &pen{x: x, y: y, scale: side / 16}
	filled := false
	switch icon {
	case IconClock:
		d.circle(8, 8, 6.3)
		d.strokes(8, 4.4, 8, 8.2, 10.6, 9.8)
	case IconBolt:
		d.strokes(9.4, 1.4, 3.4, 9.2, 7.3, 9.2, 6.5, 14.6, 12.6, 6.6, 8.7, 6.6)
		d.path.shut()
		filled = true
	case IconCode:
		d.strokes(5.4, 3.6, 1.6, 8, 5.4, 12.4)
		d.strokes(10.6, 3.6, 14.4, 8, 10.6, 12.4)
	case IconPlay:
		d.strokes(4.6, 2.8, 13, 8, 4.6, 13.2)
		d.path.shut()
		filled = true
	case IconPerson:
		d.circle(8, 5, 2.9)
		d.move(2.6, 14)
		d.cubic(2.6, 10.8, 5, 9.7, 8, 9.7)
		d.cubic(11, 9.7, 13.4, 10.8, 13.4, 14)
	case IconCheck:
		d.circle(8, 8, 6.3)
		d.strokes(5, 8.3, 7.2, 10.4, 11, 6)
	case IconSplit:
		d.strokes(8, 1.6, 8, 5)
		d.move(8, 5)
		d.cubic(8, 9.5, 3.2, 7.5, 3.2, 13.8)
		d.move(8, 5)
		d.cubic(8, 9.5, 12.8, 7.5, 12.8, 13.8)
	case IconParallel:
		d.strokes(3.4, 2.6, 3.4, 13.4)
		d.strokes(8, 2.6, 8, 13.4)
		d.strokes(12.6, 2.6, 12.6, 13.4)
	case IconRepeat:
		d.arc(8, 8, 5.6, -20, 250)
		d.strokes(2.6, 1.6, 5.9, 2.7, 4.7, 6)
	case IconNested:
		d.strokes(2, 2, 14, 2, 14, 14, 2, 14)
		d.path.shut()
		d.strokes(5.4, 5.4, 10.6, 5.4, 10.6, 10.6, 5.4, 10.6)
		d.path.shut()
	case IconSpark:
		d.move(8, 1)
		d.cubic(8.5, 5.5, 10.5, 7.5, 15, 8)
		d.cubic(10.5, 8.5, 8.5, 10.5, 8, 15)
		d.cubic(7.5, 10.5, 5.5, 8.5, 1, 8)
		d.cubic(5.5, 7.5, 7.5, 5.5, 8, 1)
		filled = true
	case IconGear:
		d.circle(8, 8, 3.9)
		for i := range 8 {
			sin, cos := math.Sincos(float64(i) * math.Pi / 4)
			d.strokes(8+4*cos, 8+4*sin, 8+6.6*cos, 8+6.6*sin)
		}
	case IconWrench:
		d.strokes(2.4, 13.6, 8.2, 7.8)
		d.arc(10.6, 5.4, 3.4, -10, 280)
	case IconFile:
		d.strokes(3.6, 1.8, 9.4, 1.8, 12.6, 5, 12.6, 14.2, 3.6, 14.2)
		d.path.shut()
		d.strokes(9.4, 1.8, 9.4, 5, 12.6, 5)
	case IconCross:
		d.strokes(3.8, 3.8, 12.2, 12.2)
		d.strokes(12.2, 3.8, 3.8, 12.2)
	case IconLeave:
		d.strokes(2.4, 8, 13, 8)
		d.strokes(9, 4, 13, 8, 9, 12)
	case IconStop:
		d.strokes(4.4, 4.4, 11.6, 4.4, 11.6, 11.6, 4.4, 11.6)
		d.path.shut()
		filled = true
	default:
		return nil
	}
	s := shape{path: d.path, stroke: p, width: max(1.1, side/16*1.5)}
	if filled {
		s.fill = p
		s.width = 0.8
	}
	return []shape{s}
}

// pen draws on the grid of an icon.
type pen struct {
	path  path
	x, y  float64
	scale float64
}

func (d *pen) at(x, y float64) (float64, float64) { return d.x + x*d.scale, d.y + y*d.scale }

func (d *pen) move(x, y float64) {
	x, y = d.at(x, y)
	d.path.move(x, y)
}

func (d *pen) cubic(x1, y1, x2, y2, x, y float64) {
	x1, y1 = d.at(x1, y1)
	x2, y2 = d.at(x2, y2)
	x, y = d.at(x, y)
	d.path.cubic(x1, y1, x2, y2, x, y)
}

// strokes draws straight lines through points given as x, y, x, y, …
func (d *pen) strokes(xy ...float64) {
	for i := 0; i+1 < len(xy); i += 2 {
		x, y := d.at(xy[i], xy[i+1])
		if i == 0 {
			d.path.move(x, y)
		} else {
			d.path.line(x, y)
		}
	}
}

func (d *pen) circle(x, y, r float64) {
	d.arc(x, y, r, 0, 360)
	d.path.shut()
}

// arc draws an arc between two angles in degrees, clockwise.
func (d *pen) arc(x, y, r, from, to float64) {
	const steps = 4
	turn := (to - from) / steps * math.Pi / 180
	k := 4.0 / 3 * math.Tan(turn/4) * r
	a := from * math.Pi / 180
	sin, cos := math.Sincos(a)
	d.move(x+r*cos, y+r*sin)
	for range steps {
		b := a + turn
		sinB, cosB := math.Sincos(b)
		sin, cos = math.Sincos(a)
		d.cubic(x+r*cos-k*sin, y+r*sin+k*cos, x+r*cosB+k*sinB, y+r*sinB-k*cosB, x+r*cosB, y+r*sinB)
		a = b
	}
}
