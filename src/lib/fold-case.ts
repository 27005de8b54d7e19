/** A name as parsers read it that ignore case; Go's also take `ſ` for `s`. */
export function foldCase(name: string): string {
  return name.toUpperCase().toLowerCase();
}
