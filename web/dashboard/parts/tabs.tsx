import type { JSX } from "preact";

interface TabsProps {
  /** The name of the whole, for a reader of the screen. */
  readonly label: string;
  readonly parts: readonly {
    readonly name: string;
    readonly href: string;
    /** It leads to an explanation of why there is nothing. */
    readonly isMuted?: boolean;
  }[];
  readonly current: string;
}

/** Links to the parts of a page, each with an address of its own. */
export function Tabs({ label, parts, current }: TabsProps): JSX.Element {
  return (
    <nav class="tabs" aria-label={label}>
      {parts.map(({ name, href, isMuted = false }) => (
        <a
          key={name}
          href={href}
          class={isMuted ? "muted" : undefined}
          aria-current={name === current ? "page" : undefined}
        >
          {name}
        </a>
      ))}
    </nav>
  );
}
