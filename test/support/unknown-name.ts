/** A name that no machine can have: its label is too long for DNS, so that no resolver is asked. */
export const unknownName = `${"a".repeat(64)}.invalid`;
