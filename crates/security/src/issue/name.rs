//! Names of certificates.

use const_oid::ObjectIdentifier;

use super::der::{SEQUENCE, SET, element, oid};

const PRINTABLE_STRING: u8 = 0x13;
const UTF8_STRING: u8 = 0x0c;
const IA5_STRING: u8 = 0x16;

/// A kind of attribute of a name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Attribute {
    /// C: two letters.
    Country,
    /// ST.
    State,
    /// L.
    Locality,
    /// O.
    Organization,
    /// OU.
    OrganizationalUnit,
    /// CN.
    CommonName,
    /// emailAddress.
    EmailAddress,
}

/// A name: attributes with their values, in the order of the certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubjectName(pub Vec<(Attribute, String)>);

impl Attribute {
    const fn oid(self) -> ObjectIdentifier {
        ObjectIdentifier::new_unwrap(match self {
            Self::Country => "2.5.4.6",
            Self::State => "2.5.4.8",
            Self::Locality => "2.5.4.7",
            Self::Organization => "2.5.4.10",
            Self::OrganizationalUnit => "2.5.4.11",
            Self::CommonName => "2.5.4.3",
            Self::EmailAddress => "1.2.840.113549.1.9.1",
        })
    }

    const fn tag(self) -> u8 {
        match self {
            Self::Country => PRINTABLE_STRING,
            Self::EmailAddress => IA5_STRING,
            _ => UTF8_STRING,
        }
    }
}

impl SubjectName {
    /// A name with an organization and a common name.
    #[must_use]
    pub fn new(organization: &str, common_name: &str) -> Self {
        Self(vec![(Attribute::Organization, organization.to_owned()), (Attribute::CommonName, common_name.to_owned())])
    }

    pub(super) fn to_der(&self) -> Vec<u8> {
        let rdn = |(kind, value): &(Attribute, String)| {
            let attribute = element(SEQUENCE, &[&oid(kind.oid()), &element(kind.tag(), &[value.as_bytes()])]);
            element(SET, &[&attribute])
        };
        element(SEQUENCE, &[&self.0.iter().map(rdn).collect::<Vec<_>>().concat()])
    }
}
