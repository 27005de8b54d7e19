/** For each vector the cosines of its angles with all of them, from -1 to 1; 0 where one of the two has no direction. */
export function similaritiesOf(vectors: readonly (readonly number[])[]): readonly (readonly number[])[] {
  const lengths = vectors.map((vector) => Math.sqrt(product(vector, vector)));
  return vectors.map((one, row) =>
    vectors.map((other, column) => {
      const length = (lengths[row] ?? 0) * (lengths[column] ?? 0);
      return length === 0 ? 0 : product(one, other) / length;
    }),
  );
}

function product(one: readonly number[], other: readonly number[]): number {
  return one.reduce((sum, value, index) => sum + value * (other[index] ?? 0), 0);
}
