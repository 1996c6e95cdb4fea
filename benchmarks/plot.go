package main

import (
	"fmt"
	"image/color"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// colors are dark and light in turns, so that lines differ in print and for the colour-blind.
var colors = []color.Color{color.RGBA{0, 70, 140, 255}, color.RGBA{220, 120, 0, 255}, color.RGBA{90, 90, 90, 255}}

// plotLoads writes two pictures for a cost: hashes per second, and waiting time, against
// callers a core, one line for each peer.
func plotLoads(prefix string, cost int, loads [][]load) error {
	const slow = 1.0 // seconds: too long for a login
	for _, picture := range []struct {
		name, title, unit string
		value             func(load) float64
		log               bool
	}{
		{"throughput", "Throughput", "hashes per second", func(l load) float64 { return l.perSecond }, false},
		{"waiting", "Waiting time, median", "seconds", func(l load) float64 { return l.median.Seconds() }, true},
	} {
		p := plot.New()
		p.BackgroundColor = color.White
		p.Title.Text = fmt.Sprintf("%s at cost %d", picture.title, cost)
		p.X.Label.Text = "callers a core"
		p.Y.Label.Text = picture.unit
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, callerTicks(loads[0])
		p.Y.Min = 0
		if picture.log {
			p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: 2}
		}
		p.Legend.Top, p.Legend.Left = true, true
		p.Add(plotter.NewGrid())
		for i := range peers {
			var points plotter.XYs
			for _, l := range loads[i] {
				if l.cost == cost {
					points = append(points, plotter.XY{X: float64(l.callers), Y: picture.value(l)})
				}
			}
			line, dots, err := plotter.NewLinePoints(points)
			if err != nil {
				return err
			}
			line.Color, dots.Color = colors[i], colors[i]
			line.Width, dots.Shape = vg.Points(1.5), plotutil.Shape(i)
			p.Add(line, dots)
			p.Legend.Add(peers[i].label, line, dots)
		}
		p.X.Max = 36 // room for the last label
		if !picture.log {
			p.Y.Max *= 1.3 // and for the legend
		} else {
			limit := plotter.NewFunction(func(float64) float64 { return slow })
			limit.Color = color.Gray{128}
			limit.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
			p.Add(limit)
			p.Y.Min, p.Y.Max = 0.01, 50
		}
		if err := p.Save(12*vg.Centimeter, 8*vg.Centimeter, prefix+picture.name+".svg"); err != nil {
			return err
		}
	}
	return nil
}

// callerTicks marks the numbers of callers that were measured.
func callerTicks(loads []load) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for _, l := range loads {
		ticks = append(ticks, plot.Tick{Value: float64(l.callers), Label: strconv.Itoa(l.callers)})
	}
	return ticks
}
