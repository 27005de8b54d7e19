/** What a timer of Node counts to, 24.8 days; told to wait longer, it does not wait at all. */
export const longestTimerMs = 2 ** 31 - 1;
