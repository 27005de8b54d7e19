const units = ["B", "KiB", "MiB", "GiB", "TiB"] as const;

/** A size for a sentence: `4.3 GiB`, `512 MiB`. */
export function byteText(bytes: number): string {
  const { value, unit } = scaled(bytes);
  return `${unit < 3 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit] ?? "B"}`;
}

/** A size for a table, where neighbours are compared: `4.3 GiB`, `512.0 MiB`, `20 B`. */
export function byteFigure(bytes: number): string {
  const { value, unit } = scaled(bytes);
  return `${unit === 0 ? Math.round(value) : value.toFixed(1)} ${units[unit] ?? "B"}`;
}

function scaled(bytes: number): { readonly value: number; readonly unit: number } {
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return { value, unit };
}
