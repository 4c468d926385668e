//! Owns reading a listing page by page, up to the limit of its arguments.

use crate::args::PageArgs;
use crate::output;

/// Reads pages of at most `rows_max` rows, and hands their rows over, up to the limit. `read` takes
/// the limit of a page and where it starts, and returns its rows and where the next one starts.
/// Prints how to go on if there are more. Errors: those of `read` and `take`.
pub(crate) async fn read<R>(
    page: &PageArgs,
    rows_max: usize,
    read: impl AsyncFn(usize, Option<String>) -> anyhow::Result<(Vec<R>, Option<String>)>,
    mut take: impl FnMut(Vec<R>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (mut left, mut after) = (page.limit, page.after.clone());
    while left > 0 {
        let (rows, next) = read(left.min(rows_max), after).await?;
        left = left.saturating_sub(rows.len());
        take(rows)?;
        after = next;
        if after.is_none() {
            return Ok(());
        }
    }
    if let Some(next) = after {
        output::error_line(&format!("more: --after {next}"));
    }
    Ok(())
}
