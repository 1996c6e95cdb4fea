package main

import (
	"image/color"
	"math"
	"strconv"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// plotResults draws the median time against the cost, with a line for each implementation and one
// for the limit. It uses the first password and number of callers that were measured.
func plotResults(name string, results []*result, limit time.Duration) error {
	p := plot.New()
	p.BackgroundColor = color.White
	p.Title.Text = "bcrypt: time of a hash against cost"
	p.X.Label.Text, p.Y.Label.Text = "cost", "milliseconds, median"
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.Add(plotter.NewGrid()) // the legend is at the lower right, where no line comes

	lines := map[string]plotter.XYs{}
	var order []string
	for _, r := range results {
		if r.Password != results[0].Password || r.Callers != results[0].Callers {
			continue
		}
		if lines[r.Peer] == nil {
			order = append(order, r.Peer)
		}
		lines[r.Peer] = append(lines[r.Peer], plotter.XY{X: float64(r.Cost), Y: max(r.Median.Seconds()*1e3, 1e-6)})
	}
	for i, peer := range order {
		line, dots, err := plotter.NewLinePoints(lines[peer])
		if err != nil {
			return err
		}
		line.Color, dots.Color = plotutil.DarkColors[i%len(plotutil.DarkColors)], plotutil.DarkColors[i%len(plotutil.DarkColors)]
		line.Dashes, dots.Shape = plotutil.Dashes(i), plotutil.Shape(i)
		line.Width = vg.Points(1.5)
		p.Add(line, dots)
		p.Legend.Add(peer, line, dots)
	}
	line := plotter.NewFunction(func(float64) float64 { return limit.Seconds() * 1e3 })
	line.Color, line.Dashes = color.Gray{110}, []vg.Length{vg.Points(4), vg.Points(3)}
	p.Add(line)
	p.Legend.Add("limit", line)
	var ticks plot.ConstantTicks
	for cost := results[0].Cost; cost <= results[len(results)-1].Cost; cost++ {
		ticks = append(ticks, plot.Tick{Value: float64(cost), Label: strconv.Itoa(cost)})
	}
	p.X.Tick.Marker = ticks
	p.Y.Min = math.Pow(10, math.Floor(math.Log10(p.Y.Min))) // whole decades have labels
	p.Y.Max = math.Pow(10, math.Ceil(math.Log10(max(p.Y.Max, limit.Seconds()*1e3))))
	return p.Save(16*vg.Centimeter, 11*vg.Centimeter, name)
}
