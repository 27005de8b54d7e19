/** The longest time in seconds for which the members of a group may be lent. */
export const longestLoanSeconds = 30 * 86_400;
