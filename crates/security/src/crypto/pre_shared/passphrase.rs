//! Passphrases as applications write them.

use core::fmt;

use crate::limits::{PASSPHRASE_BYTES, PASSPHRASES};
use crate::secret::Secret;

/// A passphrase with its number, which headers of messages state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Passphrase {
    id: u32,
    text: Secret,
}

/// The passphrases of a participant: one to seal with, and others that are accepted, too.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Passphrases {
    primary: Passphrase,
    extra: Vec<Passphrase>,
}

/// Why a text is no passphrase with a number, or no list of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MalformedPassphrase {
    /// There is no `:` after a number.
    NoNumber,
    /// The number is not a decimal one below 2³².
    Number,
    /// The low byte of the number is 255.
    ReservedNumber(u32),
    /// The passphrase has no character.
    Empty,
    /// The passphrase has more than [`PASSPHRASE_BYTES`] characters.
    TooLong,
    /// A character is not a printable one of ASCII.
    Character,
    /// The first or last character is a space.
    Space,
    /// There are more than [`PASSPHRASES`] passphrases.
    TooMany,
    /// Two passphrases have this number.
    Repeated(u32),
}

impl Passphrase {
    /// A passphrase of 1 to [`PASSPHRASE_BYTES`] printable characters of ASCII, without a space at either end.
    ///
    /// # Errors
    /// The number is reserved, or the text is not such a passphrase.
    pub fn new(id: u32, text: &[u8]) -> Result<Self, MalformedPassphrase> {
        if id & 0xff == 0xff {
            return Err(MalformedPassphrase::ReservedNumber(id));
        }
        if text.len() > PASSPHRASE_BYTES {
            return Err(MalformedPassphrase::TooLong);
        }
        if !text.iter().all(|octet| (b' '..=b'~').contains(octet)) {
            return Err(MalformedPassphrase::Character);
        }
        match (text.first(), text.last()) {
            (Some(b' '), _) | (_, Some(b' ')) => Err(MalformedPassphrase::Space),
            (None, _) | (_, None) => Err(MalformedPassphrase::Empty),
            _ => Ok(Self { id, text: Secret::copy_of(text) }),
        }
    }

    /// A passphrase behind its number and a colon, as in `5612:Open Sesame`. A line end may follow.
    ///
    /// # Errors
    /// The text has another form.
    pub fn parse(text: &[u8]) -> Result<Self, MalformedPassphrase> {
        let text = text.trim_ascii_end();
        let colon = text.iter().position(|octet| *octet == b':').ok_or(MalformedPassphrase::NoNumber)?;
        let (number, passphrase) = text.split_at_checked(colon).ok_or(MalformedPassphrase::NoNumber)?;
        if number.is_empty() || !number.iter().all(u8::is_ascii_digit) {
            return Err(MalformedPassphrase::Number);
        }
        let digits = core::str::from_utf8(number).map_err(|_| MalformedPassphrase::Number)?;
        let id = digits.parse().map_err(|_| MalformedPassphrase::Number)?;
        Self::new(id, passphrase.get(1..).unwrap_or_default())
    }

    /// Its number.
    #[must_use]
    pub const fn id(&self) -> u32 {
        self.id
    }

    pub(super) const fn text(&self) -> &Secret {
        &self.text
    }
}

impl Passphrases {
    /// Seals with `primary`, and accepts `extra`, too.
    ///
    /// # Errors
    /// There are too many passphrases, or two have the same number.
    pub fn new(primary: Passphrase, extra: Vec<Passphrase>) -> Result<Self, MalformedPassphrase> {
        if extra.len() >= PASSPHRASES {
            return Err(MalformedPassphrase::TooMany);
        }
        let all = Self { primary, extra };
        let mut ids: Vec<u32> = all.iter().map(Passphrase::id).collect();
        ids.sort_unstable();
        let repeated = ids.windows(2).find_map(|pair| match pair {
            [a, b] if a == b => Some(*a),
            _ => None,
        });
        repeated.map_or(Ok(all), |id| Err(MalformedPassphrase::Repeated(id)))
    }

    /// Passphrases as in the properties `rtps_psk_secret_passphrase` and `rtps_psk_secret_passphrase_extra` (DDS
    /// Security 1.2 §10.5.1), without the scheme of the URI: `extra` has one in each line. Lines without characters are
    /// skipped.
    ///
    /// # Errors
    /// A text has another form, there are too many passphrases, or two have the same number.
    pub fn parse(primary: &[u8], extra: &[u8]) -> Result<Self, MalformedPassphrase> {
        Self::with_list(Passphrase::parse(primary)?, extra)
    }

    /// The same, with a primary passphrase that is parsed already.
    ///
    /// # Errors
    /// A text has another form, there are too many passphrases, or two have the same number.
    pub fn with_list(primary: Passphrase, extra: &[u8]) -> Result<Self, MalformedPassphrase> {
        let lines = extra.split(|octet| matches!(octet, b'\n' | b'\r')).filter(|line| !line.trim_ascii().is_empty());
        // One more than there may be is enough to refuse the list.
        let extra: Result<Vec<_>, _> = lines.take(PASSPHRASES).map(Passphrase::parse).collect();
        Self::new(primary, extra?)
    }

    /// All of them, the one to seal with first.
    pub fn iter(&self) -> impl Iterator<Item = &Passphrase> {
        core::iter::once(&self.primary).chain(&self.extra)
    }
}

impl fmt::Display for MalformedPassphrase {
    /// Without a part of the text, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNumber => f.write_str("a passphrase follows its number and a colon, as in `1:passphrase`"),
            Self::Number => write!(f, "the number of a passphrase is a decimal one from 0 to {}", u32::MAX),
            Self::ReservedNumber(id) => write!(f, "the number {id} is reserved, because its low byte is 255"),
            Self::Empty => f.write_str("a passphrase is empty"),
            Self::TooLong => write!(f, "a passphrase has more than {PASSPHRASE_BYTES} characters"),
            Self::Character => f.write_str("a passphrase has a character that is not a printable one of ASCII"),
            Self::Space => f.write_str("a passphrase begins or ends with a space"),
            Self::TooMany => write!(f, "there are more than {PASSPHRASES} passphrases"),
            Self::Repeated(id) => write!(f, "two passphrases have the number {id}"),
        }
    }
}

impl core::error::Error for MalformedPassphrase {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passphrase_behind_number_and_colon_is_parsed() {
        let passphrase = Passphrase::parse(b"5612:Open: Sesame\n").unwrap();
        assert_eq!((passphrase.id(), passphrase.text().expose()), (5612, &b"Open: Sesame"[..]));
        assert_eq!(Passphrase::parse(b"4294967294:a").unwrap().id(), u32::MAX - 1);
        assert_eq!(Passphrase::parse(b"007:a").unwrap().id(), 7);
    }

    #[test]
    fn other_texts_are_refused_with_their_fault() {
        use MalformedPassphrase as Fault;
        let long = [b"1:", &vec![b'x'; PASSPHRASE_BYTES + 1][..]].concat();
        assert!(Passphrase::parse(&long[..long.len() - 1]).is_ok());
        for (text, fault) in [
            (&b"secret"[..], Fault::NoNumber),
            (b"", Fault::NoNumber),
            (b":secret", Fault::Number),
            (b"+1:secret", Fault::Number),
            (b"-1:secret", Fault::Number),
            (b"0x1:secret", Fault::Number),
            (b"4294967296:secret", Fault::Number),
            (b"511:secret", Fault::ReservedNumber(511)),
            (b"1:", Fault::Empty),
            (b"1: secret", Fault::Space),
            (b"1:sec\tret", Fault::Character),
            ("1:se\u{e9}".as_bytes(), Fault::Character),
            (&long, Fault::TooLong),
        ] {
            assert_eq!(Passphrase::parse(text), Err(fault), "{}", String::from_utf8_lossy(text));
        }
        assert_eq!(Passphrase::new(1, b"secret "), Err(Fault::Space));
    }

    #[test]
    fn list_has_one_passphrase_in_each_line_up_to_its_bound() {
        let all = Passphrases::parse(b"1:one", b"2:two\r\n\n3:three\r4:four").unwrap();
        assert_eq!(all.iter().map(Passphrase::id).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert_eq!(Passphrases::parse(b"1:one", b"2:two\n1:other"), Err(MalformedPassphrase::Repeated(1)));
        assert_eq!(Passphrases::parse(b"1:one", b"two"), Err(MalformedPassphrase::NoNumber));
        let list = |count: usize| (0..count).map(|n| format!("{}:text\n", n + 2)).collect::<String>();
        assert!(Passphrases::parse(b"1:one", list(PASSPHRASES - 1).as_bytes()).is_ok());
        assert_eq!(Passphrases::parse(b"1:one", list(PASSPHRASES).as_bytes()), Err(MalformedPassphrase::TooMany));
    }

    #[test]
    fn debug_output_and_errors_show_no_passphrase() {
        let all = Passphrases::parse(b"1:hidden", b"2:hidden too").unwrap();
        assert!(!format!("{all:?} {all:#?}").contains("hidden"));
        for text in [&b"hidden"[..], b"hidden:1", b"1: hidden", b"255:hidden"] {
            let error = Passphrase::parse(text).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hidden"));
        }
    }
}
