/** The place where a person changes a resource. */
export type Origin =
  | { readonly kind: "file"; readonly path: string }
  /** An object of an API server, in the form of `kubectl edit`: `slots.berth.dev/primary`. */
  | { readonly kind: "object"; readonly name: string; readonly namespace: string };

/** For a person, and as the `file` of published state. */
export function describeOrigin(origin: Origin): string {
  switch (origin.kind) {
    case "file":
      return origin.path;
    case "object":
      return `${origin.name} in namespace ${origin.namespace}`;
    default:
      return origin satisfies never;
  }
}
