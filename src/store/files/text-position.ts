/** A place in a text; both numbers count from 1. */
export interface TextPosition {
  readonly line: number;
  readonly column: number;
}
