//! Plug-ins of applications: the example with an access control of its own.

#[path = "../examples/access_control.rs"]
mod access_control;

#[test]
fn access_control_of_an_application_decides_in_place_of_the_permissions() {
    let seen = access_control::run().unwrap();
    assert!((seen.sum - 3.0).abs() < f64::EPSILON);
    assert!(seen.denial.contains("`payroll` does not begin with `robot/`"), "{}", seen.denial);
}
