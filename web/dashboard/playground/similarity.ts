/** The cosine of the angle between two vectors, from -1 to 1; 0 where one of them has no direction. */
export function cosine(one: readonly number[], other: readonly number[]): number {
  const product = one.reduce((sum, value, index) => sum + value * (other[index] ?? 0), 0);
  const length = Math.hypot(...one) * Math.hypot(...other);
  return length === 0 ? 0 : product / length;
}
