//! A cluster as one of its nodes sees it.

/// The number of slots of every cluster.
pub(super) const SLOTS: u16 = 16_384;

/// The answer of one node to CLUSTER NODES.
#[derive(Debug)]
pub(super) struct View {
    slots: Vec<Option<String>>,
    trusted: Vec<String>,
    serves: bool,
}

impl View {
    /// Parses lines of `id address flags master ping pong epoch link slots...`.
    pub(super) fn parse(text: &str) -> Self {
        let mut view = Self { slots: vec![None; usize::from(SLOTS)], trusted: Vec::new(), serves: false };
        for line in text.lines() {
            let words: Vec<_> = line.split_whitespace().collect();
            let [id, _, flags, _, _, _, _, link, ranges @ ..] = words.as_slice() else { continue };
            let myself = flags.split(',').any(|flag| flag == "myself");
            let doubt =
                flags.split(',').any(|flag| matches!(flag, "fail" | "fail?" | "handshake" | "noaddr"));
            if !doubt && (myself || *link == "connected") {
                view.trusted.push((*id).to_owned());
            }
            // Words in brackets are slots on the move.
            let ranges = ranges.iter().filter_map(|range| parse_range(range));
            for (first, last) in ranges {
                view.slots[first..=last].fill(Some((*id).to_owned()));
                view.serves |= myself;
            }
        }
        view
    }

    /// Returns the owner of each slot.
    pub(super) fn slots(&self) -> &[Option<String>] {
        &self.slots
    }

    /// Returns the owner of one slot.
    pub(super) fn owner(&self, slot: u16) -> Option<&str> {
        self.slots[usize::from(slot)].as_deref()
    }

    /// Returns true if the node that answered has slots.
    pub(super) fn serves(&self) -> bool {
        self.serves
    }

    /// Returns true if the node that answered is connected to this one and does not doubt it.
    pub(super) fn trusts(&self, id: &str) -> bool {
        self.trusted.iter().any(|known| known == id)
    }
}

fn parse_range(word: &str) -> Option<(usize, usize)> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last && last < usize::from(SLOTS)).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_and_doubts_are_read_per_node() {
        let view = View::parse(
            "aa 127.0.0.1:1@11 myself,master - 0 1 1 connected 0-2 5 [7->-bb]\n\
             bb 127.0.0.1:2@12 master,fail? - 0 1 2 connected 3-4\n\
             cc 127.0.0.1:3@13 slave aa 0 1 2 connected\n",
        );
        let owners: Vec<_> = (0..7).map(|slot| view.owner(slot)).collect();
        assert_eq!(owners, [Some("aa"), Some("aa"), Some("aa"), Some("bb"), Some("bb"), Some("aa"), None]);
        assert_eq!((view.trusts("aa"), view.trusts("bb"), view.trusts("cc")), (true, false, true));
        assert!(view.serves());
    }
}
