mod access;
mod governance;
mod openssl;
mod permissions;
mod signed;

/// A governance document with one rule for all domains and topics.
fn governance(topic_rules: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<dds xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:noNamespaceSchemaLocation=\"governance.xsd\">
  <domain_access_rules>
    <domain_rule>
      <domains><id_range><min>0</min><max>230</max></id_range></domains>
      <allow_unauthenticated_participants>false</allow_unauthenticated_participants>
      <enable_join_access_control>true</enable_join_access_control>
      <discovery_protection_kind>ENCRYPT</discovery_protection_kind>
      <liveliness_protection_kind>SIGN</liveliness_protection_kind>
      <rtps_protection_kind>SIGN_WITH_ORIGIN_AUTHENTICATION</rtps_protection_kind>
      <topic_access_rules>{topic_rules}</topic_access_rules>
    </domain_rule>
  </domain_access_rules>
</dds>
"
    )
}

/// A rule for the topics that match, with access control or without.
fn topic_rule(topic: &str, is_controlled: bool) -> String {
    format!(
        "<topic_rule>
          <topic_expression>{topic}</topic_expression>
          <enable_discovery_protection>true</enable_discovery_protection>
          <enable_liveliness_protection>false</enable_liveliness_protection>
          <enable_read_access_control>{is_controlled}</enable_read_access_control>
          <enable_write_access_control>{is_controlled}</enable_write_access_control>
          <metadata_protection_kind>ENCRYPT</metadata_protection_kind>
          <data_protection_kind>NONE</data_protection_kind>
        </topic_rule>"
    )
}

/// A permissions document with one grant for `CN=P_a,O=Test,C=ES`.
fn permissions(rules: &str) -> String {
    format!(
        "<dds>
  <permissions>
    <grant name=\"first\">
      <subject_name>CN=P_a,O=Test,C=ES</subject_name>
      <validity><not_before>2020-01-01T00:00:00</not_before><not_after>2030-01-01T00:00:00Z</not_after></validity>
      {rules}
    </grant>
  </permissions>
</dds>"
    )
}
