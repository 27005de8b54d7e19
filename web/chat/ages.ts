/** The names of the ages, and after how many days each begins. */
const ages = [
  ["Today", 0],
  ["Yesterday", 1],
  ["Last 7 days", 2],
  ["Older", 8],
] as const;

/** Pinned conversations, then the others by the day that they were last continued, the latest first; none of it is empty. */
export function byAge<T extends { readonly updated_at: string; readonly pinned?: boolean | undefined }>(
  conversations: readonly T[],
  now = new Date(),
): readonly (readonly [age: string, conversations: readonly T[]])[] {
  const midnight = new Date(now.getFullYear(), now.getMonth(), now.getDate());
  const pinned = conversations.filter((each) => each.pinned === true);
  const others = conversations.filter((each) => each.pinned !== true);
  const aged = ages.flatMap(([age, from], nth) => {
    const until = ages[nth + 1]?.[1] ?? Infinity;
    const some = others.filter(({ updated_at: at }) => {
      const days = daysBefore(midnight, new Date(at));
      return days >= from && days < until;
    });
    return some.length === 0 ? [] : [[age, some] as const];
  });
  return pinned.length === 0 ? aged : [["Pinned", pinned], ...aged];
}

/** Whole days before the present one; 0 for any time of today, or later. */
function daysBefore(midnight: Date, at: Date): number {
  const ms = midnight.getTime() - at.getTime();
  return ms <= 0 ? 0 : Math.ceil(ms / 86_400_000);
}
