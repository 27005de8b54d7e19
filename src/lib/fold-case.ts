/** The same for all names that a parser may take for each other which ignores case; Go's also takes `ſ` for `s`. */
export function foldCase(name: string): string {
  return name.toUpperCase().toLowerCase();
}
