/**
 * Expands `$(NAME)` as Kubernetes does: a known name becomes its value, an unknown one stays as written, and
 * `$$(NAME)` is the literal text `$(NAME)`.
 */
export function expand(text: string, values: Readonly<Record<string, string>>): string {
  return text.replaceAll(/\$(\$?)\(([A-Za-z_][A-Za-z0-9_]*)\)/g, (match, escape: string, name: string) => {
    if (escape !== "") return `$(${name})`;
    return Object.hasOwn(values, name) ? (values[name] ?? match) : match;
  });
}
