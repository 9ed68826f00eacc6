//! The picture as a drawing: a column a rank, a box a mapping, windows inside. Heights are not to scale.

use super::{Label, Picture, Row, cell_text, human};
use crate::svg::Svg;

const LEFT: u32 = 110;
const TOP: u32 = 88;
const GAP: u32 = 14;
/// Height of a line of text.
const LINE: u32 = 18;
/// Width of a character of the monospaced font, rounded up.
const CHARACTER: u32 = 8;
const PAD: u32 = 8;

impl Picture {
    /// The drawing, as one SVG element.
    pub(super) fn svg(&self) -> String {
        let heights: Vec<u32> = self.rows.iter().map(height).collect();
        let bottom = TOP + heights.iter().map(|height| height + GAP).sum::<u32>();
        let widest = text_width(&self.title()).max(text_width(&self.multicast));
        let width = self.x(self.n_ranks).max(2 * GAP + widest);
        let size = (f64::from(width), f64::from(bottom + 2 * LINE));
        let mut svg = Svg::new(size, "font-family=\"monospace\" font-size=\"12\"");
        text(&mut svg, GAP, 24, &self.title());
        text(&mut svg, GAP, 24 + LINE, &self.multicast);
        for rank in 0..self.n_ranks {
            text(&mut svg, self.x(rank), TOP - PAD, &format!("rank {rank}"));
        }
        let mut y = TOP;
        for (row, height) in self.rows.iter().zip(heights) {
            self.draw_row(&mut svg, row, y, height);
            y += height + GAP;
        }
        let (end, free) = self.free();
        text(&mut svg, GAP, y + LINE, &format!("{end:#x}"));
        text(&mut svg, LEFT, y + LINE, &format!("{} never used", human(free)));
        svg.finish()
    }

    fn draw_row(&self, svg: &mut Svg, row: &Row, y: u32, height: u32) {
        let width = self.column_width();
        text(svg, GAP, y + LINE, &format!("{:#x}", row.flat_bytes));
        for (rank, cell) in (0..self.n_ranks).zip(&row.cells) {
            let x = self.x(rank);
            rect(svg, x, y, width, height, if cell.is_some() { "#e8eef7" } else { "none" });
            text(svg, x + PAD, y + LINE, &cell_text(cell));
            for (line, label) in (1..).zip(self.labels(row, rank)) {
                let top = y + line * (LINE + 4) + 4;
                rect(svg, x + PAD, top, width - 2 * PAD, LINE, "#c9e4ca");
                text(svg, x + 2 * PAD, top + LINE - 5, &label);
            }
        }
    }

    /// What lies in a row. Only of the rank that draws it is known where the caller has it mapped.
    fn labels(&self, row: &Row, rank: u32) -> Vec<String> {
        let window = |label: &Label| match rank == self.rank {
            true => label.to_string(),
            false => Label { user_address: None, ..*label }.to_string(),
        };
        let name = row.name().map(str::to_owned);
        let unicast = row.unicast_because.iter().map(|reason| format!("unicast alone: {reason}"));
        name.into_iter().chain(unicast).chain(row.windows.iter().map(window)).collect()
    }

    /// Left edge of a rank's column.
    fn x(&self, rank: u32) -> u32 {
        LEFT + rank * (self.column_width() + GAP)
    }

    /// Wide enough for every text.
    fn column_width(&self) -> u32 {
        let of_row = |row: &Row| {
            let cells = row.cells.iter().map(cell_text);
            let texts = cells.chain(self.labels(row, self.rank));
            texts.map(|text| text_width(&text)).max().unwrap_or(0)
        };
        4 * PAD + self.rows.iter().map(of_row).max().unwrap_or(0)
    }
}

fn text_width(text: &str) -> u32 {
    CHARACTER * text.chars().count() as u32
}

fn height(row: &Row) -> u32 {
    let n_other = u32::from(row.name().is_some()) + u32::from(row.unicast_because.is_some());
    let n_lines = row.windows.len() as u32 + n_other;
    LINE + PAD + n_lines * (LINE + 4) + 4
}

fn rect(svg: &mut Svg, x: u32, y: u32, width: u32, height: u32, fill: &str) {
    let attributes = format!("rx=\"3\" fill=\"{fill}\" stroke=\"#556\"");
    svg.rect((x.into(), y.into()), (width.into(), height.into()), &attributes);
}

fn text(svg: &mut Svg, x: u32, y: u32, content: &str) {
    svg.text((x.into(), y.into()), "", content);
}
