import type { ComponentChildren, JSX } from "preact";

interface PageHeadProps {
  readonly title: string;
  /** One line on what the page shows. */
  readonly context?: ComponentChildren;
  /** The page's one main action. */
  readonly children?: ComponentChildren;
}

/** The top of every page. */
export function PageHead({ title, context, children }: PageHeadProps): JSX.Element {
  return (
    <div class="page-head">
      <div>
        <h1>{title}</h1>
        {context !== undefined && <p class="quiet">{context}</p>}
      </div>
      {children !== undefined && <div class="row">{children}</div>}
    </div>
  );
}
