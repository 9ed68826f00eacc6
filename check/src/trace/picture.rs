//! Strokes as a drawing: a lane for each block of each rank, time downwards, what crosses the link as arrows.

use super::strokes::{Access, Direction, Stroke, What};
use symmem::svg::{Point, Svg};

const LEFT: f64 = 40.0;
const LANE: f64 = 340.0;
const TOP: f64 = 96.0;
const ROW: f64 = 24.0;
const BAR: f64 = 12.0;
/// Colours that people with any kind of colour vision tell apart (Okabe and Ito).
const STORE: &str = "#0072b2";
const LOAD: &str = "#009e73";
const ATOMIC: &str = "#d55e00";
const MEETING: &str = "#cc79a7";
const QUIET: &str = "#667";

/// The lanes of a picture: each block of each device that did something.
struct Lanes {
    /// Device and block, in order.
    all: Vec<(u32, u32)>,
}

impl Lanes {
    fn of(strokes: &[Stroke]) -> Self {
        let mut all: Vec<_> = strokes.iter().map(|stroke| (stroke.device, stroke.block)).collect();
        all.sort_unstable();
        all.dedup();
        Self { all }
    }

    fn place(&self, device: u32, block: u32) -> usize {
        let place = self.all.iter().position(|&lane| lane == (device, block));
        // Memory of a device that did nothing itself is drawn at its neighbour.
        let place = place.or_else(|| self.all.iter().position(|lane| lane.0 >= device));
        place.unwrap_or(self.all.len() - 1)
    }

    fn x(&self, device: u32, block: u32) -> f64 {
        LEFT + LANE * self.place(device, block) as f64
    }

    fn width(&self) -> f64 {
        LEFT + LANE * self.all.len() as f64 + 60.0
    }
}

/// The drawing.
pub(super) fn svg(title: &str, strokes: &[Stroke]) -> String {
    let lanes = Lanes::of(strokes);
    let rows = rows(&lanes, strokes);
    let bottom = y(rows.iter().max().map_or(0, |last| last + 1));
    let mut svg = Svg::new((lanes.width(), bottom + 20.0), "font-family=\"sans-serif\" font-size=\"11\"");
    svg.raw(&heads());
    svg.text((LEFT - 20.0, 28.0), "font-size=\"16\" font-weight=\"bold\"", title);
    legend(&mut svg);
    for &(device, block) in &lanes.all {
        let x = lanes.x(device, block);
        let name = format!("rank {device}, block {block}");
        svg.text((x - BAR / 2.0, TOP - 14.0), "font-size=\"13\" font-weight=\"bold\"", &name);
        svg.line((x, TOP - 6.0), (x, bottom), "stroke=\"#bbb\" stroke-dasharray=\"3 4\"");
    }
    kernels(&mut svg, &lanes, strokes, &rows);
    for (stroke, row) in strokes.iter().zip(&rows) {
        draw(&mut svg, &lanes, stroke, y(*row));
    }
    svg.finish()
}

/// The row of each stroke: behind all that came before it on the lanes that it touches or crosses. Strokes of different
/// lanes may share one.
fn rows(lanes: &Lanes, strokes: &[Stroke]) -> Vec<usize> {
    let mut next = vec![0; lanes.all.len()];
    let row = |stroke: &Stroke| {
        let own = lanes.place(stroke.device, stroke.block);
        let other = match &stroke.what {
            What::Access(Access { owner: Some(owner), .. }) => lanes.place(*owner, stroke.block),
            _ => own,
        };
        let touched = &mut next[own.min(other)..=own.max(other)];
        let row = touched.iter().copied().max().unwrap_or(0);
        touched.fill(row + 1);
        row
    };
    strokes.iter().map(row).collect()
}

fn y(row: usize) -> f64 {
    TOP + ROW * (row as f64 + 0.7)
}

/// Heads of arrows, one a colour.
fn heads() -> String {
    let head = |colour: &str| {
        format!(
            "<marker id=\"head-{}\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" \
             orient=\"auto\"><path d=\"M0 0 L8 4 L0 8 z\" fill=\"{colour}\"/></marker>",
            &colour[1..]
        )
    };
    format!("<defs>{}</defs>", [STORE, LOAD, ATOMIC].map(head).concat())
}

fn legend(svg: &mut Svg) {
    let entries = [
        ("store across the link", STORE),
        ("load across the link", LOAD),
        ("atomic", ATOMIC),
        ("block barrier", MEETING),
        ("within the rank", QUIET),
    ];
    let mut x = LEFT - 20.0;
    for (words, colour) in entries {
        svg.rect((x, 44.0), (14.0, 5.0), &format!("fill=\"{colour}\""));
        svg.text((x + 20.0, 50.0), "", words);
        x += 40.0 + 6.2 * words.len() as f64;
    }
}

/// A bar from the beginning of each kernel to its end, on the lanes of its blocks.
fn kernels(svg: &mut Svg, lanes: &Lanes, strokes: &[Stroke], rows: &[usize]) {
    for begin in strokes.iter().filter(|stroke| matches!(stroke.what, What::Begin(_))) {
        let of_launch = |stroke: &&Stroke| stroke.launch == begin.launch;
        let mut blocks: Vec<_> = strokes.iter().filter(of_launch).map(|stroke| stroke.block).collect();
        blocks.sort_unstable();
        blocks.dedup();
        for block in blocks {
            let of_block = |(stroke, _): &(&Stroke, &usize)| of_launch(stroke) && stroke.block == block;
            let own = || strokes.iter().zip(rows).filter(of_block).map(|(_, row)| y(*row));
            let (top, bottom) = (own().fold(f64::MAX, f64::min), own().fold(0.0, f64::max));
            let at = (lanes.x(begin.device, block) - BAR / 2.0, top - 4.0);
            svg.rect(at, (BAR, bottom - top + 8.0), "rx=\"4\" fill=\"#e8eef7\" stroke=\"#99a\"");
        }
    }
}

fn draw(svg: &mut Svg, lanes: &Lanes, stroke: &Stroke, y: f64) {
    let x = lanes.x(stroke.device, stroke.block);
    let beside = |svg: &mut Svg, colour: &str| {
        svg.text((x + BAR, y + 4.0), &format!("fill=\"{colour}\""), &stroke.words());
    };
    match &stroke.what {
        What::Access(access) if stroke.is_remote() => {
            arrow(svg, (x, lanes.x(access.owner.unwrap_or(0), stroke.block)), y, access, &stroke.words());
        }
        What::Access(_) => {
            svg.circle((x, y), 3.0, &format!("fill=\"{QUIET}\""));
            beside(svg, QUIET);
        }
        What::Barrier => {
            svg.rect((x - BAR, y - 2.0), (2.0 * BAR, 4.0), &format!("fill=\"{MEETING}\""));
            svg.text((x + BAR + 4.0, y + 4.0), &format!("fill=\"{MEETING}\""), &stroke.words());
        }
        What::Fence(_) => {
            svg.line((x - BAR, y), (x + BAR, y), "stroke=\"#000\" stroke-width=\"2\"");
            svg.text((x + BAR + 4.0, y + 4.0), "", &stroke.words());
        }
        What::Begin(_) | What::End => {
            svg.text((x + BAR, y + 4.0), "font-style=\"italic\"", &stroke.words());
        }
    }
}

/// From where the data comes to where it goes, `x` being the lane that acts and the one whose memory it is.
fn arrow(svg: &mut Svg, (actor, memory): Point, y: f64, access: &Access, words: &str) {
    let colour = match access.direction {
        Direction::Load => LOAD,
        Direction::Store => STORE,
        Direction::Atomic => ATOMIC,
    };
    let (from, to) = if access.direction == Direction::Load { (memory, actor) } else { (actor, memory) };
    let reach = if to > from { BAR / 2.0 } else { -BAR / 2.0 };
    let line = format!("stroke=\"{colour}\" stroke-width=\"1.6\" marker-end=\"url(#head-{})\"", &colour[1..]);
    svg.line((from, y + 4.0), (to - reach, y + 4.0), &line);
    svg.circle((actor, y + 4.0), 3.0, &format!("fill=\"{colour}\""));
    let left = actor.min(memory) + 2.0 * BAR;
    svg.text((left, y), &format!("fill=\"{colour}\""), words);
}
