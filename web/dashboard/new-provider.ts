/** A provider as a person describes it in the form. */
export interface NewProvider {
  readonly name: string;
  readonly baseUrl: string;
  /** The place from which the gateway reads the key. */
  readonly key: "none" | "env" | "file";
  /** The name of the variable, or the path of the file. */
  readonly keyAt: string;
  /** Separated by commas, spaces or lines; empty: all that the provider lists. */
  readonly models: string;
}

/** Whether nothing is missing that the manifest needs. */
export function isWhole({ name, baseUrl, key, keyAt }: NewProvider): boolean {
  return name !== "" && baseUrl !== "" && (key === "none" || keyAt !== "");
}

/** The body of `PUT /api/upstreams/{name}`. */
export function providerBody({ baseUrl, key, keyAt, models }: NewProvider): Readonly<Record<string, unknown>> {
  const refs = models.split(/[\s,]+/).filter((ref) => ref !== "");
  return {
    baseUrl,
    ...(key === "none" ? {} : { auth: { type: "bearer", valueFrom: { [key]: keyAt } } }),
    ...(refs.length === 0 ? { discover: {} } : { models: refs.map((ref) => ({ ref })) }),
  };
}
