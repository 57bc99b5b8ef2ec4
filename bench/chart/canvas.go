package chart

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"strconv"
)

// style has both themes. The viewer says which: a page's <img> follows the system.
const style = `
.page{fill:#fff;stroke:#d1d9e0}
text{font:13px system-ui,-apple-system,"Segoe UI","Noto Sans",Helvetica,Arial,sans-serif;fill:#1f2328}
.title{font-size:16px;font-weight:600}.head{font-weight:600}.tick{font-size:12px;fill:#59636e}.value{font-size:12px;stroke:#fff;stroke-width:4px;paint-order:stroke}
.grid{stroke:#d1d9e0}.minor{stroke:#eaeef2}.frame{stroke:#818b98;fill:none}.goal{stroke:#1f2328;stroke-width:1.5}
.line{fill:none;stroke-width:2}.mark{stroke-width:1.5}.range{stroke-width:1.5;opacity:.65}
.c0{--c:#0550ae}.c1{--c:#bc4c00}.c2{--c:#116329}.c3{--c:#8250df}.c4{--c:#57606a}
.line,.mark,.range{stroke:var(--c)}.mark{fill:var(--c)}.hollow{fill:#fff}
@media (prefers-color-scheme:dark){
.page{fill:#0d1117;stroke:#3d444d}text{fill:#f0f6fc}.tick{fill:#9198a1}
.grid{stroke:#3d444d}.minor{stroke:#21262d}.frame{stroke:#656c76}.goal{stroke:#f0f6fc}.hollow{fill:#0d1117}.value{stroke:#0d1117}
.c0{--c:#79c0ff}.c1{--c:#ffa657}.c2{--c:#56d364}.c3{--c:#d2a8ff}.c4{--c:#b1bac4}
}`

// patterns of the series' lines, by number.
var patterns = []string{"", "7 4", "2 3", "10 3 2 3", "4 2"}

// canvas collects the parts of one file.
type canvas struct {
	bytes.Buffer
	width, height float64
}

func number(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

// add writes an element. Numbers in it are in pixels.
func (c *canvas) add(format string, args ...any) {
	for i, a := range args {
		switch a := a.(type) {
		case float64:
			args[i] = number(a)
		case string:
			args[i] = html.EscapeString(a)
		}
	}
	fmt.Fprintf(c, format+"\n", args...)
}

// open begins the file. The title and the description are what a reader hears who
// does not see it.
func open(title, description string, width, height float64) *canvas {
	c := &canvas{width: width, height: height}
	c.add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" width="%s" height="%s" role="img" aria-labelledby="t d">`,
		width, height, width, height)
	c.add(`<title id="t">%s</title>`, title)
	c.add(`<desc id="d">%s</desc>`, description)
	c.WriteString("<style>" + style + "</style>\n")
	c.add(`<rect class="page" x="0.5" y="0.5" width="%s" height="%s" rx="6"/>`, width-1, height-1)
	c.text(margin, 27, "title", "start", title)
	return c
}

func (c *canvas) close() []byte {
	c.WriteString("</svg>\n")
	return c.Bytes()
}

func (c *canvas) text(x, y float64, class, anchor, s string) {
	c.add(`<text x="%s" y="%s" class="%s" text-anchor="%s">%s</text>`, x, y, class, anchor, s)
}

func (c *canvas) line(class string, x1, y1, x2, y2 float64) {
	c.add(`<line class="%s" x1="%s" y1="%s" x2="%s" y2="%s"/>`, class, x1, y1, x2, y2)
}

// mark draws the sign of series number n.
func (c *canvas) mark(n int, hollow bool, x, y float64) {
	class := fmt.Sprintf("mark c%d", n%5)
	if hollow {
		class += " hollow"
	}
	const r = 4.5
	switch n % 5 {
	case 0:
		c.add(`<circle class="%s" cx="%s" cy="%s" r="%s"/>`, class, x, y, r)
	case 1:
		c.add(`<rect class="%s" x="%s" y="%s" width="%s" height="%s"/>`, class, x-r+0.5, y-r+0.5, 2*r-1, 2*r-1)
	case 2:
		c.polygon(class, x, y-r-1, x+r+0.5, y+r-0.5, x-r-0.5, y+r-0.5)
	case 3:
		c.polygon(class, x, y-r-1, x+r+1, y, x, y+r+1, x-r-1, y)
	case 4:
		c.polygon(class, x, y+r+1, x+r+0.5, y-r+0.5, x-r-0.5, y-r+0.5)
	}
}

func (c *canvas) polygon(class string, xy ...float64) {
	points := ""
	for i := 0; i < len(xy); i += 2 {
		points += number(xy[i]) + "," + number(xy[i+1]) + " "
	}
	c.add(`<polygon class="%s" points="%s"/>`, class, points)
}

// legend explains the signs from x on, at height y, in as many lines as the room
// asks for.
func (c *canvas) legend(x, y, room float64, names []string, lines bool) {
	for n, place := range legendPlaces(room, names) {
		x, y := x+place[0], y+place[1]
		if lines {
			c.add(`<line class="line c%d" x1="%s" y1="%s" x2="%s" y2="%s" stroke-dasharray="%s"/>`, n%5, x, y-4, x+28, y-4, patterns[n%5])
		}
		c.mark(n, false, x+14, y-4)
		c.text(x+34, y, "", "start", names[n])
	}
}

const legendLine = 20.0

// legendPlaces is where each name of a legend goes, from its beginning.
func legendPlaces(room float64, names []string) (places [][2]float64) {
	x, y := 0.0, 0.0
	for _, name := range names {
		w := 34 + textWidth(name) + 12
		if x > 0 && x+w > room {
			x, y = 0, y+legendLine
		}
		places = append(places, [2]float64{x, y})
		x += w
	}
	return places
}

// legendHeight is how much a legend needs beyond its first line.
func legendHeight(room float64, names []string) float64 {
	if len(names) == 0 {
		return 0
	}
	return legendPlaces(room, names)[len(names)-1][1]
}

// textWidth is about how wide a text is; a little too wide rather than too narrow.
func textWidth(s string) float64 { return 6.9 * float64(len([]rune(s))) }
