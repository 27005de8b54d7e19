"""What no setting of schemathesis can say of the gateway."""

from schemathesis.specs.openapi import checks

# 429 refuses a wrong token too: the gateway answers so after 20 failures of one address in a minute, and the check that
# wrong tokens are refused comes from one address for every operation.
checks.AUTH_REJECTION_STATUSES = frozenset({*checks.AUTH_REJECTION_STATUSES, 429})
