/** The longest time of a Node timer, 24.8 days; a timer with a longer time fires at once. */
export const longestTimerMs = 2 ** 31 - 1;
