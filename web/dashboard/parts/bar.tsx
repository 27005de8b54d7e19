import type { JSX } from "preact";

interface BarProps {
  /** The filled share of the whole; more than 1 fills it. */
  readonly share: number;
  readonly tone: "good" | "busy" | "bad";
}

/** A thin bar that is filled as far as something is used; its figures stand beside it. */
export function Bar({ share, tone }: BarProps): JSX.Element {
  return (
    <svg class="bar thin" viewBox="0 0 1000 8" preserveAspectRatio="none" aria-hidden="true">
      <rect class={tone} width={1000 * Math.min(1, share)} height={8} />
    </svg>
  );
}
