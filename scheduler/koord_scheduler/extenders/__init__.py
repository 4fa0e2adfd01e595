"""HTTP extenders: other programs that have a say in where pods go. No IO.

- ``extender``: what is known of each, and which pods are its business
- ``wire``: JSON as Go's decoder takes it
- ``calls``: one request with what it sends and how its answer is read
- ``refusal``: what extenders had against a pod
- ``steps``: which calls a decision takes, one after the other
- ``api_documents``: pods and nodes as the API has them, to be sent
"""
