//! A plan in the kernel's own words (`event_hist_trigger_print`).

use super::{Column, Plan};

pub(super) fn info(plan: &Plan) -> String {
    let mut out = String::from("hist:");
    if let Some(name) = &plan.name {
        out.push_str(&format!("name={name}:"));
    }
    let keys: Vec<&str> = plan.keys.iter().map(|k| k.spec.as_str()).collect();
    let hitcount = (!plan.no_hitcount).then_some("hitcount");
    let values = plan.values.iter().map(|v| v.spec.as_str());
    let values: Vec<&str> = hitcount.into_iter().chain(values).collect();
    let sort: Vec<String> = plan
        .sort
        .iter()
        .map(|by| sort_by(plan, by.column, by.descending))
        .collect();
    out.push_str(&format!(
        "keys={}:vals={}:sort={}:size={}",
        keys.join(","),
        values.join(","),
        sort.join(","),
        plan.size
    ));
    if let Some(clock) = &plan.clock {
        out.push_str(&format!(":clock={clock}"));
    }
    if plan.no_hitcount {
        out.push_str(":nohitcount");
    }
    if let Some(filter) = &plan.filter_text {
        out.push_str(&format!(" if {filter}"));
    }
    out
}

fn sort_by(plan: &Plan, column: Column, descending: bool) -> String {
    let spec = match column {
        Column::Hitcount => None,
        Column::Value(i) => plan.values.get(i).map(|v| v.spec.as_str()),
        Column::Key(i) => plan.keys.get(i).map(|k| k.spec.as_str()),
    };
    let descending = if descending { ".descending" } else { "" };
    format!("{}{descending}", spec.unwrap_or("hitcount"))
}
