//! The instructions that DDS Security adds to a sample, by part, without the set-up of the participants.

use std::collections::BTreeMap;

use super::callgrind::Profile;

/// The function of the example that exchanges samples. The set-up before it draws random numbers, and the cost of that
/// differs between runs.
pub(super) const EXCHANGE: &str = "exchange::exchange";

/// How the instructions of a part are found.
enum Part {
    /// Functions whose name ends in this, with their callees.
    WithCallees(&'static str),
    /// Functions whose name contains one of these, without their callees.
    Own(&'static [&'static str]),
}

const PARTS: [(&str, Part); 5] = [
    ("AES-GCM of aws-lc: sealing", Part::WithCallees("_EVP_AEAD_CTX_seal_scatter")),
    ("AES-GCM of aws-lc: opening", Part::WithCallees("_EVP_AEAD_CTX_open_gather")),
    ("keys, nonces and sessions around both", Part::Own(&["peregrine_security::", "aws_lc_rs::", "arc_swap::"])),
    (
        "frames of what is sent: prefix, body, postfix, counters",
        Part::Own(&[
            "peregrine_rtps::protection::seal",
            "protection::payload::PayloadSealer",
            "wire::secure::CryptoFooter::emit",
            "Packer::protected",
            "WriterHistory::seal_from",
        ]),
    ),
    (
        "frames of what is received: splitting, checks, copies",
        Part::Own(&[
            "peregrine_rtps::protection::open",
            "Interpreter::read_protected",
            "Reader>::open_payload",
            "peregrine_rtps::payload::BufferPool",
        ]),
    ),
];

/// Instructions of a run, or for each of its samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cost {
    whole: f64,
    parts: [f64; PARTS.len()],
}

impl Cost {
    /// The cost of each of so many samples, by which the second run is longer.
    pub(super) fn per_sample(few: &Profile, many: &Profile, samples: u64) -> Self {
        let [few, many] = [few, many].map(Self::of);
        let each = |few: f64, many: f64| (many - few) / samples as f64;
        let parts = std::array::from_fn(|part| each(few.parts[part], many.parts[part]));
        Self { whole: each(few.whole, many.whole), parts }
    }

    fn of(profile: &Profile) -> Self {
        let sum = |costs: &BTreeMap<String, u64>, is_part: &dyn Fn(&str) -> bool| {
            costs.iter().filter(|(name, _)| is_part(name)).map(|(_, cost)| *cost as f64).sum::<f64>()
        };
        let of = |part: &Part| match part {
            Part::WithCallees(end) => sum(&profile.inclusive, &|name| name.ends_with(end)),
            Part::Own(texts) => sum(&profile.functions, &|name| texts.iter().any(|text| name.contains(text))),
        };
        Self {
            whole: sum(&profile.inclusive, &|name| name == EXCHANGE),
            parts: PARTS.each_ref().map(|(_, part)| of(part)),
        }
    }

    fn beyond(self, base: Self) -> Self {
        Self { whole: self.whole - base.whole, parts: std::array::from_fn(|part| self.parts[part] - base.parts[part]) }
    }

    /// Instructions in no part; negative where protection takes a shorter way.
    fn other(self) -> f64 {
        self.whole - self.parts.iter().sum::<f64>()
    }
}

/// Prints the costs of no security, of security without protection, and what each level adds to the latter.
pub(super) fn print(no_security: Cost, unprotected: Cost, levels: &[(&str, Cost)]) {
    println!("\nInstructions of one sample of 32 bytes and its ACKNACK, without the set-up, by part");
    println!("  {:>8.0}  no security", no_security.whole);
    println!("  {:>8.0}  security itself: added where nothing is protected", unprotected.beyond(no_security).whole);
    println!("  {:>8.0}  both, to which a level adds:", unprotected.whole);
    let added: Vec<Cost> = levels.iter().map(|(_, cost)| cost.beyond(unprotected)).collect();
    let row = |what: &str, of: &dyn Fn(&Cost) -> f64| {
        let cells: String = added.iter().map(|cost| format!(" {:>12.0}", of(cost))).collect();
        println!("  {what:<56}{cells}");
    };
    let heads: String = levels.iter().map(|(name, _)| format!(" {name:>12}")).collect();
    println!("  {:<56}{heads}", "");
    for (index, (what, _)) in PARTS.iter().enumerate() {
        row(what, &|cost| cost.parts[index]);
    }
    row("other", &|cost| cost.other());
    row("sum", &|cost| cost.whole);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_others_are_the_whole_of_the_exchange_without_the_set_up() {
        let profile = |samples: u64, set_up: u64| {
            let own = [
                ("<peregrine_security::crypto::transform::Cryptography as Protection>::open", 5 * samples),
                ("peregrine_rtps::protection::seal::Active::begin", 3 * samples),
                ("peregrine_rtps::protection::open::Walk::opened", 2 * samples),
                ("jent_memaccess", set_up),
            ];
            let inclusive = [
                ("aws_lc_0_47_0_EVP_AEAD_CTX_seal_scatter", 11 * samples),
                ("aws_lc_0_47_0_EVP_AEAD_CTX_open_gather", 13 * samples),
                (EXCHANGE, 40 * samples),
                ("main", 40 * samples + set_up),
            ];
            let map = |costs: &[(&str, u64)]| costs.iter().map(|(name, cost)| ((*name).to_owned(), *cost)).collect();
            Profile { functions: map(&own), inclusive: map(&inclusive), ..Profile::default() }
        };
        let cost = Cost::per_sample(&profile(10, 7), &profile(30, 5000), 20);
        assert_eq!(cost, Cost { whole: 40.0, parts: [11.0, 13.0, 5.0, 3.0, 2.0] });
        assert_eq!(cost.other(), 6.0);
        let base = Cost { whole: 30.0, parts: [0.0; 5] };
        assert_eq!(cost.beyond(base), Cost { whole: 10.0, ..cost });
    }
}
